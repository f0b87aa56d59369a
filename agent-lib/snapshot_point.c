/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points at which the program waits until a snapshot of it has been taken, if the watcher wants
 * such snapshots: where its code requests one, and where it exits. The waiting thread holds the
 * runtime lock and is in a function that OCaml code has called, so the scanners find all roots.
 * Therefore the copy is made at memprof_agent_at_point(), which the thread passes repeatedly,
 * instead of at the safe point.
 *
 * A watcher without a probe catches a thread in a callback of the runtime, which is as good a place
 * (struct memprof_sample_point). That thread makes no system call while it waits, so it can be
 * stopped anywhere in memprof_agent_hold() and be made to call a function.
 */
#include "snapshot.h"

#include <string.h>
#include <time.h>

#include "buffers.h"
#include "domains.h"
#include "raw_syscall.h"
#include "runtime_abi.h"

#define NAP_NS 500000
#define PATIENCE_NS 10000000000u

static volatile int somebody_waits;

/* The watcher's probe is placed here. */
__attribute__((visibility("default"), noinline, naked)) void memprof_agent_at_point(void)
{
	__asm__("nop\n\tnop\n\tret");
}

static int is_wanted(uint32_t kind)
{
	const struct memprof_snapshot *snapshot = &memprof_snapshot;

	return (snapshot->points_wanted & kind) != 0 &&
	       memprof_now_ns() < snapshot->points_until_ns;
}

static int wait_for_answer(uint32_t kind, uint64_t number)
{
	const struct memprof_snapshot *snapshot = &memprof_snapshot;
	uint64_t began_ns = memprof_now_ns();

	while (__atomic_load_n(&snapshot->point_answered, __ATOMIC_ACQUIRE) != number) {
		if (!is_wanted(kind) || memprof_now_ns() - began_ns > PATIENCE_NS)
			return 0;
		memprof_agent_at_point();
		raw_nap(NAP_NS);
	}
	return snapshot->point_taken != 0;
}

int memprof_snapshot_point(uint32_t kind, const char *name)
{
	static uint64_t last;
	struct memprof_snapshot *snapshot = &memprof_snapshot;
	int taken;

	if (!is_wanted(kind) || !__sync_bool_compare_and_swap(&somebody_waits, 0, 1))
		return 0;
	memset(snapshot->point_name, 0, sizeof snapshot->point_name);
	strncpy(snapshot->point_name, name, sizeof snapshot->point_name - 1);
	snapshot->point_kind = kind;
	__atomic_store_n(&snapshot->point, ++last, __ATOMIC_RELEASE);
	taken = wait_for_answer(kind, last);
	__atomic_store_n(&snapshot->point, 0, __ATOMIC_RELEASE);
	__sync_lock_release(&somebody_waits);
	return taken;
}

__attribute__((visibility("default"))) struct memprof_sample_point memprof_sample_point;

/* Some 10 us. */
__attribute__((visibility("default"), noinline, naked)) void memprof_agent_hold(void)
{
	__asm__("movl	$256, %ecx\n"
		"1:	pause\n\t"
		"decl	%ecx\n\t"
		"jnz	1b\n\t"
		"ret");
}

static uint32_t waited_for; /* the last number for which a thread has waited */

static int is_still_wanted(uint32_t number)
{
	return __atomic_load_n(&memprof_sample_point.wanted, __ATOMIC_ACQUIRE) == number;
}

/* In OCaml 5 one thread of one domain waits; the others stop once the copy requires that. */
void memprof_wait_at_sample_point(void)
{
	uint32_t *tid = &memprof_sample_point.tid;
	uint32_t number = __atomic_load_n(&memprof_sample_point.wanted, __ATOMIC_ACQUIRE);
	uint64_t began_ns;

	/* A watcher that has died leaves its number, which all later samples see. */
	if (number == 0 || __atomic_load_n(&waited_for, __ATOMIC_RELAXED) == number ||
	    __atomic_exchange_n(&waited_for, number, __ATOMIC_ACQ_REL) == number)
		return;
	began_ns = memprof_now_ns();
	__atomic_store_n(tid, (uint32_t)raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0),
			 __ATOMIC_RELEASE);
	while (is_still_wanted(number) && memprof_now_ns() - began_ns < MEMPROF_HOLD_NS)
		memprof_agent_hold();
	__atomic_store_n(tid, 0, __ATOMIC_RELEASE);
}

void memprof_sample_point_forget(void) { memprof_sample_point.wanted = 0; }

/* Memprof_agent.snapshot of the findlib package, which links the agent in. */
value memprof_agent_snapshot_point(value name)
{
	return memprof_snapshot_point(MEMPROF_POINT_OF_PROGRAM, (const char *)name) ? VAL_TRUE
										    : VAL_FALSE;
}

/* C code may exit without the runtime lock. In OCaml 5 this thread then has no domain. In OCaml
 * 4 that cannot be detected, but a copy that another thread spoils is inconsistent and is
 * rejected. */
void memprof_snapshot_at_exit(void)
{
	if (!memprof_has_domains() || caml_state != 0)
		memprof_snapshot_point(MEMPROF_POINT_EXIT, "exit");
}
