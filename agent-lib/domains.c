/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml 5. Gc.Memprof there is of a domain: a profile is used by the domain that
 * starts it and by those it spawns. To sample all domains, each starts its own, in
 * the hook that the runtime calls where a thread may yield, at the end of its pending
 * actions: allocation and callbacks are legal there.
 *
 *   in_use()  section: does a domain sample already? Then the program uses Memprof
 *             itself, and nothing is changed.
 *   start()   section: every domain asks itself for its hook; when the world is too busy
 *             for a section, each does at the end of its next minor collection.
 *   hook      a domain that does not sample starts a profile, once a session. One in
 *             a blocking section does when it comes back.
 *   stop()    section: all our profiles are marked as stopped, each domain flushes
 *             its batch and forgets its next sample. Domains that are not in a blocking
 *             section may be in the middle of a sampling function: `passes` counts them.
 *   hook      each of them passes; then the profiles are discarded. Before that, a
 *             domain could see its profile vanish in the middle.
 *
 * A section (stop the world) runs on every domain, on its own thread or, when that is
 * in a blocking section, on its backup thread. Nothing may be allocated in it.
 * Profiles are discarded by their status, as caml_memprof_discard does; the runtime may
 * go on looking at them, so that they stay roots until then.
 */
#define _GNU_SOURCE
#include "domains.h"

#include <sched.h>
#include <stdatomic.h>

#include "batch.h"

/* A domain starts a profile at most once a session, but many domains can come and go. */
#define PROFILES 512u
/* caml_try_run_on_all_domains fails while another section is being prepared. */
#define SECTION_PATIENCE_NS 3000000000u

struct domain {
	uint64_t unique_id;  /* of the domain that has this index now */
	uint32_t generation; /* session that it has joined */
	int passing;	     /* it is counted in passes */
	int working;	     /* its hook runs */
	atomic_int asked;    /* for the hook */
};

static struct domain domains[MEMPROF_BUFFERS];
static value profiles[PROFILES]; /* global roots once used; VAL_UNIT: free */
static atomic_uint roots;	 /* of profiles that are registered */
static atomic_uint passes;	 /* domains that have to pass their hook before the discard */
static atomic_int clearing;	 /* 1: profiles wait for it, 2: they are being discarded */
static value our_callback;
static atomic_int chained;
static void (*next_initialize)(void);
static void (*next_stop)(void);
static void (*next_interrupt)(void);

int memprof_has_domains(void) { return caml_memprof_discard != 0; }

int memprof_domains_usable(void)
{
	return caml_ml_domain_index && caml_ml_domain_id && caml_bt_is_self &&
	       caml_try_run_on_all_domains && caml_interrupt_self && caml_set_action_pending &&
	       caml_reset_young_limit && caml_memprof_set_trigger &&
	       caml_memprof_run_callbacks_res && caml_register_generational_global_root &&
	       caml_modify_generational_global_root && &caml_domain_initialize_hook &&
	       &caml_domain_stop_hook && &caml_domain_external_interrupt_hook &&
	       memprof_agent_control.offsets.memprof != 0;
}

/* ------------------------------------------------------------------ this domain */

static atomic_uintptr_t *interrupt_flag(domain_state *state)
{
	return (atomic_uintptr_t *)(state + memprof_agent_control.offsets.external_interrupt);
}

/* What this domain samples with, VAL_UNIT when nothing. */
static value profile_of(domain_state *state)
{
	const struct memprof_runtime_offsets *offsets = &memprof_agent_control.offsets;
	char *memprof = *(char **)(state + offsets->memprof);

	return *(value *)(memprof + offsets->memprof_config);
}

static int is_sampling(value profile)
{
	return IS_BLOCK(profile) && FIELD(profile, PROFILE_STATUS) == PROFILE_SAMPLING;
}

static int is_ours(value profile) { return FIELD(profile, PROFILE_ALLOC_MINOR) == our_callback; }

static struct domain *this_domain(void)
{
	struct domain *domain = &domains[memprof_buffer_index()];
	uint64_t unique_id = (uint64_t)LONG_VAL(caml_ml_domain_id(VAL_UNIT)) + 1;

	if (domain->unique_id != unique_id) {
		domain->generation = 0;
		domain->unique_id = unique_id;
	}
	return domain;
}

/* Has the hook called soon. */
static void ask_for_hook(domain_state *state)
{
	atomic_store(&this_domain()->asked, 1);
	atomic_store(interrupt_flag(state), 1);
	caml_set_action_pending(state);
	caml_interrupt_self();
}

/* ------------------------------------------------------------------ statistics */

/* Minor, promoted, major. */
static const uint64_t *words_of(domain_state *state)
{
	return (const uint64_t *)(state + memprof_agent_control.offsets.stat_words);
}

static struct memprof_batch_buffer *this_buffer(void)
{
	return memprof_use_buffer(memprof_buffer_index());
}

void memprof_domains_note_heap(void)
{
	char *heap = *(char **)(caml_state + memprof_agent_control.offsets.shared_heap);

	if (caml_heap_size)
		this_buffer()->heap_bytes = caml_heap_size(heap);
}

/* Some versions go on counting where the last domain of that index ended. */
static void note_begin(void)
{
	struct memprof_batch_buffer *buffer = this_buffer();

	for (int i = 0; i < 3; i++)
		buffer->base_words[i] = words_of(caml_state)[i];
	buffer->domain_state = (uint64_t)caml_state;
}

static void note_end(void)
{
	struct memprof_batch_buffer *buffer = this_buffer();

	if (buffer->domain_state == 0)
		return;
	buffer->domain_state = 0;
	buffer->heap_bytes = 0; /* others adopt it */
	for (int i = 0; i < 3; i++)
		__atomic_fetch_add(&memprof_agent_control.ended_words[i],
				   words_of(caml_state)[i] - buffer->base_words[i],
				   __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------ sections */

struct section {
	void (*work)(domain_state *);
	atomic_int left; /* domains that have not done it; -1 before the first */
};

static void run_section(domain_state *state, void *data, int participants, domain_state **all)
{
	struct section *section = data;
	int none = -1;

	(void)all;
	section->work(state);
	atomic_compare_exchange_strong(&section->left, &none, participants);
	atomic_fetch_sub(&section->left, 1);
}

/* On every domain. 0: it was not possible, because the world was busy for long. */
static int on_all_domains(void (*work)(domain_state *))
{
	struct section section = {.work = work, .left = -1};
	uint64_t began_ns = memprof_now_ns();

	while (!caml_try_run_on_all_domains(run_section, &section, 0)) {
		if (memprof_now_ns() - began_ns > SECTION_PATIENCE_NS)
			return 0;
		sched_yield();
	}
	/* It returns when this domain has done its part. */
	while (atomic_load(&section.left) != 0)
		sched_yield();
	return 1;
}

/* ------------------------------------------------------------------ profiles */

static void keep_profile(value profile)
{
	unsigned n = atomic_load(&roots);

	for (unsigned i = 0; i < n; i++) {
		if (__sync_bool_compare_and_swap(&profiles[i], VAL_UNIT, VAL_LONG(1))) {
			caml_modify_generational_global_root(&profiles[i], profile);
			return;
		}
	}
	n = atomic_fetch_add(&roots, 1);
	profiles[n] = profile;
	caml_register_generational_global_root(&profiles[n]);
}

/* In a section. An immediate value over another needs no barrier. */
static void mark_all_stopped(void)
{
	unsigned n = atomic_load(&roots);

	for (unsigned i = 0; i < n; i++)
		if (is_sampling(profiles[i]))
			FIELD(profiles[i], PROFILE_STATUS) = PROFILE_STOPPED;
}

static void discard_profiles(void)
{
	unsigned n = atomic_load(&roots);

	for (unsigned i = 0; i < n; i++) {
		if (!IS_BLOCK(profiles[i]))
			continue;
		caml_memprof_discard(profiles[i]); /* all are stopped */
		caml_modify_generational_global_root(&profiles[i], VAL_UNIT);
	}
}

static void pass(struct domain *domain)
{
	if (!domain->passing)
		return;
	domain->passing = 0;
	atomic_fetch_sub(&passes, 1);
}

/* Where callbacks may run: clears away once all have passed. */
static void try_to_clear(void)
{
	int waiting = 1;

	if (atomic_load(&passes) != 0 || !atomic_compare_exchange_strong(&clearing, &waiting, 2))
		return;
	discard_profiles();
	atomic_store(&clearing, 0);
}

/* One that nobody else uses. */
static void stop_profile(value profile)
{
	FIELD(profile, PROFILE_STATUS) = PROFILE_STOPPED;
	caml_memprof_set_trigger(caml_state);
	caml_reset_young_limit(caml_state);
	caml_memprof_discard(profile);
}

/* Once a session and domain. */
static void join_session(struct domain *domain)
{
	uint32_t generation = memprof_agent_control.running_generation;
	value profile = profile_of(caml_state);

	if (!memprof_activity.sampling || domain->generation == generation)
		return;
	/* Starting runs pending actions, and with them this hook. */
	domain->generation = generation;
	this_buffer()->domain_state = (uint64_t)caml_state;
	if (is_sampling(profile) && is_ours(profile))
		return; /* that of the domain which spawned this one */
	if (atomic_load(&roots) >= PROFILES - MEMPROF_BUFFERS) {
		__atomic_fetch_add(&memprof_agent_control.conflicts, 1, __ATOMIC_RELAXED);
		return;
	}
	profile = memprof_start_profile();
	if (IS_EXCEPTION_RESULT(profile))
		__atomic_fetch_add(&memprof_agent_control.conflicts, 1, __ATOMIC_RELAXED);
	else if (memprof_activity.sampling)
		keep_profile(profile);
	else
		stop_profile(
			profile); /* starting allocates, and the world was stopped for stop() */
}

/* ------------------------------------------------------------------ hooks */

static void on_interrupt(void)
{
	struct domain *domain = this_domain();

	/* What we call runs pending actions, and with them this. */
	if (caml_bt_is_self() || domain->working) {
		next_interrupt();
		return;
	}
	domain->working = 1;
	while (atomic_exchange(&domain->asked, 0)) {
		pass(domain);
		try_to_clear();
		memprof_domains_work();
		join_session(domain);
	}
	domain->working = 0;
	next_interrupt();
	/* The hook of systhreads has cleared it, the runtime's own does not. */
	if (!atomic_load(&domain->asked))
		atomic_store(interrupt_flag(caml_state), 0);
}

/* On a new domain, before its first OCaml code. */
static void on_initialize(void)
{
	next_initialize();
	note_begin();
	if (memprof_activity.sampling)
		ask_for_hook(caml_state);
}

/* On a domain that ends, after its last OCaml code but its hooks'. What still waits for
 * its callback would be called back by another domain: with whose callstack? */
static void on_stop(void)
{
	if (memprof_activity.sampling && is_sampling(profile_of(caml_state)) &&
	    is_ours(profile_of(caml_state)))
		(void)caml_memprof_run_callbacks_res();
	memprof_flush(memprof_buffer_index());
	pass(this_domain());
	note_end();
	next_stop();
}

/* systhreads puts its hooks in place of what is there when it is initialised, so that
 * ours come when a session is wanted. They stay: what comes later may be chained on. */
static void chain_hooks(void)
{
	int no = 0;

	if (caml_domain_external_interrupt_hook == on_interrupt ||
	    !atomic_compare_exchange_strong(&chained, &no, 1))
		return;
	next_initialize = caml_domain_initialize_hook;
	next_stop = caml_domain_stop_hook;
	next_interrupt = caml_domain_external_interrupt_hook;
	caml_domain_initialize_hook = on_initialize;
	caml_domain_stop_hook = on_stop;
	caml_domain_external_interrupt_hook = on_interrupt;
}

void memprof_domains_call_back(void)
{
	chain_hooks();
	if (!caml_bt_is_self())
		ask_for_hook(caml_state);
}

/* ------------------------------------------------------------------ sessions */

static atomic_int in_use;

static void look_for_use(domain_state *state)
{
	if (is_sampling(profile_of(state)))
		atomic_store(&in_use, 1);
}

int memprof_domains_in_use(void)
{
	atomic_store(&in_use, 0);
	return on_all_domains(look_for_use) ? atomic_load(&in_use) : -1;
}

void memprof_domains_start(value first_callback)
{
	our_callback = first_callback;
	chain_hooks();
	(void)on_all_domains(ask_for_hook); /* whom it did not reach is reminded */
}

void memprof_domains_remind(void)
{
	if (this_domain()->generation != memprof_agent_control.running_generation)
		ask_for_hook(caml_state);
}

static void stop_here(domain_state *state)
{
	/* Every domain marks all: its own may be that of another one, which comes later. */
	mark_all_stopped();
	memprof_flush(memprof_buffer_index());
	caml_memprof_set_trigger(state);
	caml_reset_young_limit(state);
	if (caml_bt_is_self())
		return;
	this_domain()->passing = 1;
	atomic_fetch_add(&passes, 1);
	ask_for_hook(state);
}

int memprof_domains_stop(void)
{
	if (!on_all_domains(stop_here))
		return 0;
	atomic_store(&clearing, 1);
	return 1;
}

/* In a section. Who is in a blocking section is in no sampling function. */
static void pass_if_blocked(domain_state *state)
{
	(void)state;
	if (caml_bt_is_self())
		pass(this_domain());
}

int memprof_domains_cleared(void)
{
	try_to_clear();
	if (atomic_load(&clearing) == 0)
		return 1;
	on_all_domains(pass_if_blocked);
	try_to_clear();
	return atomic_load(&clearing) == 0;
}
