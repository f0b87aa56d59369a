/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap snapshots: a copy of the program, made by one system call at the safe point.
 * include/memprof_snapshot_abi.h has the protocol.
 *
 * In the program: signals are blocked around the clone, so that no handler of the program
 * ever runs in the copy. No handlers of pthread_atfork run, no lock of the C library is taken. The
 * copy's exit signal is 0: its end sends no SIGCHLD, and only a wait for such children
 * (__WCLONE, __WALL) sees it.
 *
 * In the copy: only child_main(), the runtime's scanners of roots, which read and take no lock,
 * and raw system calls. Until close_range it shares the program's descriptors (CLONE_FILES), as a
 * thread does, and has none of its own afterwards: what the program closes meanwhile is closed.
 */
#define _GNU_SOURCE
#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "buffers.h"
#include "domains.h"
#include "include/memprof_snapshot_abi.h"
#include "raw_syscall.h"

#define SYSCALL(number, a, b, c, d)                                                                \
	raw_syscall(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* The runtime of OCaml 4: scanners of its roots, each of which calls the action with every
 * value that it knows of and the place where that is held. */
typedef void (*scanning_action)(value, value *);
extern char *Caml_state WEAK;
extern void caml_do_roots(scanning_action, int do_globals) WEAK;
typedef void local_roots_scanner(scanning_action, char *bottom_of_stack, uintptr_t return_address,
				 value *gc_regs, void *local_roots);
extern local_roots_scanner caml_do_local_roots_nat WEAK;
extern local_roots_scanner caml_do_local_roots WEAK; /* its name in 4.11 */
extern void caml_scan_global_roots(scanning_action) WEAK;
extern void caml_final_do_roots(scanning_action) WEAK;
extern void caml_memprof_do_roots(scanning_action) WEAK;
extern void (*caml_scan_roots_hook)(scanning_action) WEAK;

__attribute__((visibility("default"))) struct memprof_snapshot memprof_snapshot = {
	.magic = MEMPROF_SNAPSHOT_MAGIC,
	.abi_version = MEMPROF_SNAPSHOT_ABI,
	.bytes = sizeof(struct memprof_snapshot),
};

volatile int memprof_snapshot_child;

/* ------------------------------------------------------------------ the copy */

static struct memprof_root *roots;
static uint64_t root_count, root_limit;

static void note_root(value held, value *slot)
{
	if (root_count < root_limit)
		roots[root_count] = (struct memprof_root){(uintptr_t)slot, (uintptr_t)held};
	root_count++;
}

static void scan_locals(char *stack, uintptr_t return_address, value *gc_regs, void *locals)
{
	local_roots_scanner *scan =
		caml_do_local_roots_nat ? caml_do_local_roots_nat : caml_do_local_roots;

	scan(note_root, stack, return_address, gc_regs, locals);
}

static void scan_stack(void)
{
	const struct memprof_state_layout *at = &memprof_snapshot.layout;

	scan_locals(*(char **)(Caml_state + at->bottom_of_stack),
		    *(uintptr_t *)(Caml_state + at->last_return_address),
		    *(value **)(Caml_state + at->gc_regs), 0);
}

static void scan_local(void)
{
	scan_locals(0, 0, 0, *(void **)(Caml_state + memprof_snapshot.layout.local_roots));
}

static void scan_c_globals(void) { caml_scan_global_roots(note_root); }
static void scan_finalisers(void) { caml_final_do_roots(note_root); }
static void scan_memprof(void) { caml_memprof_do_roots(note_root); }
static void scan_hook(void)
{
	if (caml_scan_roots_hook)
		caml_scan_roots_hook(note_root);
}

static void scan_kind(enum memprof_root_kind kind, void (*scan)(void))
{
	uint64_t before = root_count;

	scan();
	memprof_snapshot.kind_roots[kind] = root_count - before;
}

/* Roots of modules have no scanner of their own. The scanner of all begins with them and goes on
 * with what the others find, so that those are known by their number: they are what it finds
 * before. They come first in the list, for which the others are scanned twice. */
static void scan_roots(void)
{
	static void (*const scans[MEMPROF_ROOT_KINDS])(void) = {
		[MEMPROF_ROOT_STACK] = scan_stack,
		[MEMPROF_ROOT_LOCAL] = scan_local,
		[MEMPROF_ROOT_C_GLOBAL] = scan_c_globals,
		[MEMPROF_ROOT_FINALISER] = scan_finalisers,
		[MEMPROF_ROOT_MEMPROF] = scan_memprof,
		[MEMPROF_ROOT_THREAD] = scan_hook,
	};
	uint64_t others;

	for (int kind = MEMPROF_ROOT_STACK; kind < MEMPROF_ROOT_KINDS; kind++)
		scan_kind(kind, scans[kind]);
	others = root_count;
	root_count = 0;
	caml_do_roots(note_root, 1);
	memprof_snapshot.kind_roots[MEMPROF_ROOT_MODULE] = root_count - others;
	root_count -= others;
	for (int kind = MEMPROF_ROOT_STACK; kind < MEMPROF_ROOT_KINDS; kind++)
		scan_kind(kind, scans[kind]);
}

/* Pages are there when they are written. */
static int make_room(void)
{
	static const uint64_t tries[] = {MEMPROF_MAX_ROOTS, 1 << 18, 1 << 14};

	for (unsigned i = 0; i < sizeof tries / sizeof *tries; i++) {
		long at = raw_syscall(SYS_mmap, 0, (long)(tries[i] * sizeof *roots),
				      PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (at > 0) {
			roots = (struct memprof_root *)at;
			root_limit = tries[i];
			return 1;
		}
	}
	return 0;
}

/* Before Linux 5.9 one by one, in a table of its own. */
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

/* When memory is short the kernel ends the copy, not the program; whatever ends it leaves no
 * core, and it does not outlive the thread that it is a copy of. */
static void be_of_no_consequence(void)
{
	static const char worst[] = "1000";
	long fd = SYSCALL(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY, 0);

	if (fd >= 0) {
		SYSCALL(SYS_write, fd, worst, sizeof worst - 1, 0);
		SYSCALL(SYS_close, fd, 0, 0, 0);
	}
	SYSCALL(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
	SYSCALL(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0);
	SYSCALL(SYS_prctl, PR_SET_NAME, "memprof-copy", 0, 0);
}

static void find_roots(void)
{
	if (!give_up_descriptors()) {
		memprof_snapshot.copy_state = MEMPROF_COPY_HAS_DESCRIPTORS;
		return;
	}
	be_of_no_consequence();
	memprof_snapshot.copy_state = MEMPROF_COPY_NO_ROOM;
	if (!make_room())
		return;
	scan_roots();
	memprof_snapshot.roots = (uintptr_t)roots;
	if (root_count <= root_limit)
		memprof_snapshot.copy_state = MEMPROF_COPY_ROOTS_FOUND;
}

__attribute__((noreturn)) static void child_main(void)
{
	find_roots();
	__asm__ volatile("int3");
	for (;;)
		SYSCALL(SYS_exit_group, 0, 0, 0, 0);
}

/* ------------------------------------------------------------------ the program */

void memprof_snapshot_forget(void) { memprof_snapshot_child = 0; }

/* __WCLONE: a child of the program itself that has got the number meanwhile is not taken. */
void memprof_snapshot_reap(void)
{
	int child = memprof_snapshot_child;

	if (child != 0 && SYSCALL(SYS_wait4, child, 0, __WCLONE | WNOHANG, 0) != 0)
		memprof_snapshot_child = 0; /* reaped, or no such child */
}

static int can_scan(void)
{
	return !memprof_has_domains() && &Caml_state && caml_do_roots &&
	       (caml_do_local_roots_nat || caml_do_local_roots) && caml_scan_global_roots &&
	       caml_final_do_roots && caml_memprof_do_roots && &caml_scan_roots_hook;
}

static long make_copy(void)
{
	uint64_t all = ~0ull, before;
	long child = SYSCALL(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);

	if (child != 0)
		return child;
	child = SYSCALL(SYS_clone, CLONE_FILES | CLONE_PTRACE, 0, 0, 0);
	if (child == 0)
		child_main();
	SYSCALL(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
	return child;
}

/*
 * To be called at the safe point, by a thread that is traced by whoever has written the
 * request. Does nothing when there is none.
 */
__attribute__((visibility("default"))) void memprof_agent_snapshot(void)
{
	struct memprof_snapshot *snapshot = &memprof_snapshot;
	uint64_t begin_ns = memprof_now_ns();
	long child = -ENOSYS;

	if (snapshot->request == snapshot->answered)
		return;
	memprof_snapshot_reap();
	if (memprof_snapshot_child != 0)
		child = -EBUSY;
	else if (can_scan())
		child = make_copy();
	if (child > 0)
		memprof_snapshot_child = (int)child;
	snapshot->child = child;
	snapshot->clone_ns = memprof_now_ns() - begin_ns;
	__atomic_store_n(&snapshot->answered, snapshot->request, __ATOMIC_RELEASE);
}
