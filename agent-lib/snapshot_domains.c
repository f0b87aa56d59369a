/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a program of OCaml 5. All domains must be where the runtime may scan them. With one
 * domain, that is the safe point. With several, it is a section: the runtime brings all domains
 * into it before the work of any of them begins. There they wait for the clone, and for nothing
 * else.
 *
 *     borrowed thread       section: clone, made = 1 ---> continues
 *     other domains         section: wait for made -----> continue
 *
 * A new domain waits until the section is over. A domain that ends has left all sections when it
 * gives its pools away, but caml_num_domains_running counts it until then. It does not depend on
 * the other domains, so we wait for it.
 */
#include "snapshot.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <time.h>

#include "buffers.h"
#include "raw_syscall.h"
#include "sections.h"

#define NAP_NS 100000
#define END_PATIENCE_NS 20000000u

static domain_state *leader; /* the domain of the borrowed thread */
static long (*make_copy)(domain_state **, int);
static long child; /* 0: no copy has been tried */
static uint64_t patient_until_ns;
/* Static, because others may read it after the leader has returned. */
static uint32_t made;

/* Called before any domain enters this section and after all have left the previous one. */
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

/* Naps once more, because such a domain briefly takes a lock at its very end that the copy
 * needs. */
static int others_have_ended(uintptr_t participants)
{
	uint64_t began_ns = memprof_now_ns();

	if (caml_num_domains_running == participants)
		return 1;
	while (caml_num_domains_running != participants) {
		if (memprof_now_ns() - began_ns > END_PATIENCE_NS)
			return 0;
		raw_nap(NAP_NS);
	}
	raw_nap(NAP_NS);
	return 1;
}

static void in_section(domain_state *state, void *data, int participants, domain_state **all)
{
	(void)data;
	if (state == leader) {
		if (memprof_now_ns() > patient_until_ns)
			child = -ETIME;
		else if (others_have_ended((uintptr_t)participants))
			child = make_copy(all, participants);
		let_others_go();
		return;
	}
	while (!__atomic_load_n(&made, __ATOMIC_ACQUIRE))
		raw_syscall(SYS_futex, (long)&made, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
}

/* If domains are late, the program has already paid for this wait; no copy is made then, so that
 * the copy's pause is not added to it. */
long memprof_copy_domains(long (*copy)(domain_state **domains, int count), uint64_t until_ns)
{
	leader = caml_state;
	patient_until_ns = until_ns;
	make_copy = copy;
	child = 0;
	if (caml_num_domains_running == 1)
		return copy(&leader, 1);
	while (!caml_try_run_on_all_domains(in_section, 0, before_section) || child == 0) {
		if (memprof_now_ns() > until_ns)
			return -ETIME;
		raw_nap(NAP_NS);
	}
	return child;
}
