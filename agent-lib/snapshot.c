/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap snapshots: a copy of the program, made by one system call at the safe point.
 * include/memprof_snapshot_abi.h describes the protocol.
 *
 * In the program: signals are blocked around the clone, so no handler of the program ever runs in
 * the copy. No pthread_atfork handlers run, and no lock of the C library is taken. The copy's exit
 * signal is 0: its end sends no SIGCHLD, and only a wait for such children (__WCLONE, __WALL) sees
 * it.
 *
 * In the copy: only child_main(), raw system calls and the runtime's scanners of roots run; the
 * scanners only read and take no lock. Until close_range the copy shares the program's descriptors
 * (CLONE_FILES), as a thread does. Afterwards it has none, so it keeps no file open that the
 * program closes.
 */
#define _GNU_SOURCE
#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "buffers.h"
#include "copy_roots.h"
#include "domains.h"
#include "raw_syscall.h"

#define SYSCALL(number, a, b, c, d)                                                                \
	raw_syscall(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

__attribute__((visibility("default"))) struct memprof_snapshot memprof_snapshot = {
	.magic = MEMPROF_SNAPSHOT_MAGIC,
	.abi_version = MEMPROF_SNAPSHOT_ABI,
	.bytes = sizeof(struct memprof_snapshot),
};

volatile int memprof_snapshot_child;

extern void (*caml_leave_blocking_section_hook)(void) WEAK;

/* ------------------------------------------------------------------ the copy */

/* Before Linux 5.9: first takes a descriptor table of its own, then closes descriptors one by
 * one. */
static int give_up_descriptors(void)
{
	struct rlimit most;

	if (SYSCALL(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE, 0) == 0)
		return 1;
	if (SYSCALL(SYS_unshare, CLONE_FILES, 0, 0, 0) != 0 ||
	    SYSCALL(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &most) != 0)
		return 0;
	for (uint64_t fd = 0; fd < most.rlim_max && fd < 1 << 20; fd++)
		SYSCALL(SYS_close, fd, 0, 0, 0);
	return 1;
}

/* If memory is short, the kernel ends the copy instead of the program. The copy never leaves a
 * core. While it searches for roots, it does not outlive the thread from which it was copied. */
static void be_of_no_consequence(void)
{
	static const char worst[] = "1000";
	/* A limit of 1 also keeps a program that collects cores from being started; see core(5). */
	static const struct rlimit no_core = {.rlim_cur = 1, .rlim_max = 1};
	long fd = SYSCALL(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY, 0);

	if (fd >= 0) {
		SYSCALL(SYS_write, fd, worst, sizeof worst - 1, 0);
		SYSCALL(SYS_close, fd, 0, 0, 0);
	}
	SYSCALL(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
	if (memprof_snapshot.copy_is_readable)
		SYSCALL(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, 0);
	else
		SYSCALL(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0);
	SYSCALL(SYS_prctl, PR_SET_NAME, "memprof-copy", 0, 0);
}

static void scan_roots(void)
{
	const struct memprof_snapshot *snapshot = &memprof_snapshot;

	if (memprof_has_domains())
		memprof_scan_ocaml5(&snapshot->layout, (domain_state *const *)snapshot->domains,
				    (uint32_t)snapshot->domain_count);
	else
		memprof_scan_ocaml4(&snapshot->layout);
}

static void find_roots(void)
{
	if (!give_up_descriptors()) {
		memprof_snapshot.copy_state = MEMPROF_COPY_HAS_DESCRIPTORS;
		return;
	}
	be_of_no_consequence();
	memprof_snapshot.copy_state = MEMPROF_COPY_NO_ROOM;
	if (!memprof_roots_make_room())
		return;
	scan_roots();
	if (memprof_report_roots(&memprof_snapshot))
		memprof_snapshot.copy_state = MEMPROF_COPY_ROOTS_FOUND;
}

__attribute__((noreturn)) static void child_main(void)
{
	find_roots();
	/* The tracer has tied the copy to itself; without that, the int3 ends it. */
	SYSCALL(SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0);
	__asm__ volatile("int3");
	for (;;)
		SYSCALL(SYS_exit_group, 0, 0, 0, 0);
}

/* ------------------------------------------------------------------ the program */

void memprof_snapshot_forget(void)
{
	memprof_snapshot_child = 0;
	memprof_sample_point_forget();
}

/* __WCLONE: does not reap an ordinary child of the program that has got the same pid meanwhile. */
void memprof_snapshot_reap(void)
{
	int child = memprof_snapshot_child;

	if (child != 0 && SYSCALL(SYS_wait4, child, 0, __WCLONE | WNOHANG, 0) != 0)
		memprof_snapshot_child = 0; /* reaped, or no such child */
}

/* in_child must not return. */
static long make_copy_that(void (*in_child)(void))
{
	uint64_t all = ~0ull, before;
	long child = SYSCALL(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);

	if (child != 0)
		return child;
	child = SYSCALL(SYS_clone, CLONE_FILES | CLONE_PTRACE, 0, 0, 0);
	if (child == 0)
		in_child();
	SYSCALL(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
	return child;
}

static long make_copy(void) { return make_copy_that(child_main); }

static long copy_with_domains(domain_state **domains, int count)
{
	memprof_snapshot.domains = (uintptr_t)domains;
	memprof_snapshot.domain_count = (uint64_t)count;
	return make_copy();
}

static long copy_program(uint64_t until_ns)
{
	if (memprof_can_scan_ocaml5())
		return memprof_copy_domains(copy_with_domains, until_ns);
	return memprof_can_scan_ocaml4() ? make_copy() : -ENOSYS;
}

static void answer(long child, uint64_t begin_ns)
{
	struct memprof_snapshot *snapshot = &memprof_snapshot;

	if (child > 0)
		memprof_snapshot_child = (int)child;
	snapshot->child = child;
	snapshot->clone_ns = memprof_now_ns() - begin_ns;
	__atomic_store_n(&snapshot->answered, snapshot->request, __ATOMIC_RELEASE);
}

/* True if there is a request that can be answered now; refuses one that cannot be answered. */
static int is_asked(uint64_t begin_ns)
{
	if (memprof_snapshot.request == memprof_snapshot.answered)
		return 0;
	memprof_snapshot_reap();
	if (memprof_snapshot_child == 0)
		return 1;
	answer(-EBUSY, begin_ns);
	return 0;
}

/*
 * Called at the safe point, by a thread that the author of the request traces. Does nothing without
 * a request.
 */
__attribute__((visibility("default"))) void memprof_agent_snapshot(void)
{
	uint64_t begin_ns = memprof_now_ns();

	if (is_asked(begin_ns))
		answer(copy_program(begin_ns + memprof_snapshot.patience_ns), begin_ns);
}

/* Does what this thread would do when its system call returns: restores the runtime's variables,
 * which may hold values of another thread that has ended. */
static void waiting_child_main(void)
{
	caml_leave_blocking_section_hook();
	child_main();
}

/* To be called by a traced thread that waits in a blocking section, while all other threads that
 * run OCaml code do too; the watcher checks this before and after. In OCaml 5 it also knows the
 * states of the domains. */
__attribute__((visibility("default"))) void memprof_agent_snapshot_waiting(const uint64_t *states,
									   uint64_t count)
{
	uint64_t begin_ns = memprof_now_ns();

	if (!is_asked(begin_ns))
		return;
	memprof_snapshot.domains = (uintptr_t)states;
	memprof_snapshot.domain_count = count;
	if ((memprof_can_scan_ocaml4() || memprof_can_scan_ocaml5()) &&
	    &caml_leave_blocking_section_hook && caml_leave_blocking_section_hook)
		answer(make_copy_that(waiting_child_main), begin_ns);
	else
		answer(-ENOSYS, begin_ns);
}
