/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a program of OCaml 5. All domains have to stand where the runtime may scan them: with
 * one that is the safe point; with several it is a section, which the runtime has all of them come
 * to before anybody's part of it begins. There they wait for the clone, and for nothing else.
 *
 *     borrowed thread       section: clone, made = 1 ---> goes on
 *     other domains         section: wait for made -----> go on
 *
 * A domain that begins or ends is not in a section, but may still give away its pools: it is
 * counted in caml_num_domains_running all that time, and the section is tried again.
 */
#include "snapshot_domains.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>

#include "buffers.h"
#include "raw_syscall.h"
#include "sections.h"

static domain_state *leader; /* the domain of the borrowed thread */
static long (*make_copy)(domain_state **, int);
static long child; /* 0: no copy has been tried */
/* Static: others may look when the leader has gone on. */
static uint32_t made;

/* Nobody is left of the section before, and nobody has come to this one. */
static void before_section(domain_state *state)
{
	(void)state;
	__atomic_store_n(&made, 0, __ATOMIC_RELAXED);
}

static void let_others_go(void)
{
	__atomic_store_n(&made, 1, __ATOMIC_RELEASE);
	raw_syscall(SYS_futex, (long)&made, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
}

static void in_section(domain_state *state, void *data, int participants, domain_state **all)
{
	(void)data;
	if (state == leader) {
		if ((uintptr_t)participants == caml_num_domains_running)
			child = make_copy(all, participants);
		let_others_go();
		return;
	}
	while (!__atomic_load_n(&made, __ATOMIC_ACQUIRE))
		raw_syscall(SYS_futex, (long)&made, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
}

long memprof_copy_domains(long (*copy)(domain_state **domains, int count))
{
	uint64_t began_ns = memprof_now_ns();

	leader = caml_state;
	make_copy = copy;
	child = 0;
	if (caml_num_domains_running == 1)
		return copy(&leader, 1);
	while (!caml_try_run_on_all_domains(in_section, 0, before_section) || child == 0) {
		if (memprof_now_ns() - began_ns > MEMPROF_SECTION_PATIENCE_NS)
			return -ETIME;
		sched_yield();
	}
	return child;
}
