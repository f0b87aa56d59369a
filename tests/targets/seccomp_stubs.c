// SPDX-License-Identifier: Apache-2.0
/* Installs a seccomp filter that kills the program for the listed system calls, or all others. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <caml/mlvalues.h>

enum { MOST = 100 };

value seccomp_install(value kills_others, value numbers)
{
	struct sock_filter code[2 * MOST + 2];
	unsigned listed = Bool_val(kills_others) ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS;
	unsigned others = Bool_val(kills_others) ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW;
	unsigned short n = 0;
	struct sock_fprog program = {.filter = code};
	mlsize_t i;

	if (Wosize_val(numbers) > MOST)
		return Val_false;
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (i = 0; i < Wosize_val(numbers); i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, Long_val(Field(numbers, i)), 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
	program.len = n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return Val_false;
	return Val_bool(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}
