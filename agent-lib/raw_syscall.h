/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that leave errno alone, for code that may not use the C library. */
#ifndef MEMPROF_RAW_SYSCALL_H
#define MEMPROF_RAW_SYSCALL_H

#include <sys/syscall.h>
#include <time.h>

#ifndef __x86_64__
#error "system calls of this processor are not known here"
#endif

/* A negative result is an error number. */
static inline long raw_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

/* ns: less than a second. */
static inline void raw_nap(long ns)
{
	struct timespec time = {.tv_nsec = ns};

	raw_syscall(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0);
}

#endif
