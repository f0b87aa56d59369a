/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml 5. There, a Gc.Memprof profile belongs to the domain that starts it and to the domains that
 * this one spawns. To sample all domains, each domain starts its own profile in the hook that the
 * runtime calls where a thread may yield, at the end of its pending actions: allocation and
 * callbacks are legal there.
 *
 *   in_use()  section: does a domain sample already? Then the program uses Memprof
 *             itself, and nothing is changed.
 *   start()   section: every domain requests its hook; if the world is too busy for a section, each
 *             does so at the end of its next minor collection.
 *   hook      a domain that does not sample starts a profile, once a session; in a blocking
 *             section, it does so when it returns. If the program has stopped the profile, the
 *             domain starts another one, so that the blocks sampled before stay followed.
 *   stop()    section: all our profiles are marked as stopped; each domain flushes its batch and
 *             forgets its next sample. Domains that are not in a blocking section may be in the
 *             middle of a sampling function: `passes` counts them.
 *   hook      each of them passes; then the profiles are discarded. An earlier discard could remove
 *             the profile that a domain is using.
 *
 * If another session is due, it begins at once and nothing is discarded: the runtime calls the
 * callbacks of a stopped profile for promotions and deaths until it is discarded. The runtime drops
 * samples that it has not reported yet, so none of them can appear in the next session.
 *
 *   start()   discards profiles of sessions that are too long ago.
 *   hook      discards everything kept for a session that is no longer due.
 */
#define _GNU_SOURCE
#include "domains.h"

#include <stdatomic.h>

#include "buffers.h"
#include "profiles.h"
#include "random.h"
#include "sections.h"
#include "share_ring.h"
#include "walk/sample_switch.h"

struct domain {
	uint64_t unique_id; /* of the domain that currently has this index */
	uint64_t session;   /* the session that it has joined; 0: none */
	int samples;	    /* it samples in this session with a profile of ours */
	int passing;	    /* it is counted in passes */
	int working;	    /* its hook runs */
	int in_gap;	    /* a session has ended, and it does not sample in another one yet */
	uint64_t words_before_gap;
	atomic_int asked; /* for the hook */
};

static struct domain domains[MEMPROF_DOMAINS];
static atomic_uint passes;  /* domains that have to pass their hook before the discard */
static atomic_int clearing; /* 1: profiles wait for it, 2: they are being discarded */
static void (*call_back)(void);
static int (*session_is_due)(void);
static atomic_int chained;
/* Hooks that were set before ours. */
static struct {
	void (*initialize)(void);
	value (*initialize_exn)(void);
	void (*stop)(void);
	void (*interrupt)(void);
} next;

void memprof_domains_load(void (*work)(void), int (*is_due)(void))
{
	call_back = work;
	session_is_due = is_due;
}

int memprof_has_domains(void) { return caml_memprof_discard != 0; }

static int has_initialize_hook(void)
{
	return &caml_domain_initialize_hook || &caml_domain_initialize_hook_exn;
}

int memprof_domains_usable(void)
{
	return caml_ml_domain_index && caml_ml_domain_id && caml_bt_is_self &&
	       caml_try_run_on_all_domains && caml_interrupt_self && caml_set_action_pending &&
	       caml_reset_young_limit && caml_memprof_set_trigger &&
	       caml_memprof_run_callbacks_res && caml_register_generational_global_root &&
	       caml_modify_generational_global_root && has_initialize_hook() &&
	       &caml_domain_stop_hook && &caml_domain_external_interrupt_hook &&
	       memprof_agent_control.offsets.memprof != 0;
}

/* ------------------------------------------------------------------ this domain */

static atomic_uintptr_t *interrupt_flag(domain_state *state)
{
	return (atomic_uintptr_t *)(state + memprof_agent_control.offsets.external_interrupt);
}

static struct domain *this_domain(void)
{
	struct domain *domain = &domains[memprof_domain_index()];
	uint64_t unique_id = (uint64_t)LONG_VAL(caml_ml_domain_id(VAL_UNIT)) + 1;

	if (domain->unique_id != unique_id) {
		domain->session = 0;
		domain->in_gap = 0;
		domain->unique_id = unique_id;
	}
	return domain;
}

/* Makes the runtime call the hook soon. */
static void ask_for_hook(domain_state *state)
{
	atomic_store(&this_domain()->asked, 1);
	atomic_store(interrupt_flag(state), 1);
	caml_set_action_pending(state);
	caml_interrupt_self();
}

static void pass(struct domain *domain)
{
	if (!domain->passing)
		return;
	domain->passing = 0;
	atomic_fetch_sub(&passes, 1);
}

/* Discards profiles once all domains have passed. Called where callbacks may run. */
static void try_to_clear(void)
{
	int waiting = 1;

	if (atomic_load(&passes) != 0 || !atomic_compare_exchange_strong(&clearing, &waiting, 2))
		return;
	memprof_discard_profiles();
	atomic_store(&clearing, 0);
}

static void add(__u64 *counter, uint64_t n)
{
	memprof_lock_data();
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
	memprof_unlock_data();
}

static void count(__u64 *counter) { add(counter, 1); }

/* Returns true if this domain samples for the session. */
static int start_in_session(void)
{
	value profile;

	if (!memprof_profiles_have_room()) {
		count(&memprof_agent_control.domains_left_out);
		return 0;
	}
	memprof_seed_domain();
	profile = memprof_start_profile();
	if (IS_EXCEPTION_RESULT(profile)) {
		count(&memprof_agent_control.conflicts);
		return 0;
	}
	if (memprof_activity.sampling) {
		memprof_keep_profile(profile);
		memprof_switch_begin();
	} else /* starting allocates, and the world was stopped for stop() */
		memprof_end_profile(profile);
	return 1;
}

/* The number of sessions so far identifies a session. */
static uint64_t this_session(void) { return memprof_agent_control.starts; }

int memprof_domain_samples(void)
{
	value profile = memprof_profile_of(caml_state);

	return memprof_is_sampling(profile) && memprof_is_ours(profile);
}

/* True if the domain has not joined yet, if the program has stopped our profile, or if it has
 * stopped a profile of its own that kept the domain from joining. */
static int may_join(const struct domain *domain)
{
	if (domain->session != this_session())
		return 1;
	if (domain->samples)
		return !memprof_domain_samples();
	return !memprof_is_sampling(memprof_profile_of(caml_state)) && memprof_profiles_have_room();
}

/* A gap lasts from the end of a session until the domain samples in the next one. */
static void begin_gap(struct domain *domain, domain_state *state)
{
	if (domain->in_gap)
		return;
	domain->in_gap = 1;
	domain->words_before_gap = memprof_domain_allocated(state);
}

/* If nothing of the previous session is followed, there is no gap between the two. */
static void end_gap(struct domain *domain)
{
	uint64_t words = memprof_domain_allocated(caml_state) - domain->words_before_gap;

	if (domain->in_gap && memprof_profiles_follow())
		add(&memprof_agent_control.unsampled_words, words);
	domain->in_gap = 0;
}

static void join_session(struct domain *domain)
{
	int had_samples;

	if (!memprof_activity.sampling || !may_join(domain))
		return;
	had_samples = domain->session == this_session() && domain->samples;
	domain->session = this_session();
	memprof_domain_joins();
	/* The domain samples already with the profile of the domain that spawned it. */
	domain->samples = memprof_domain_samples() || start_in_session();
	if (had_samples && domain->samples) /* otherwise the program has started a tracker */
		count(&memprof_agent_control.program_stops);
	end_gap(domain);
}

/* ------------------------------------------------------------------ hooks */

/* Prevents recursion: a hook that calls ours would make ours call it for ever. */
static void call(void (*hook)(void))
{
	static __thread int calling;

	if (!hook || calling)
		return;
	calling = 1;
	hook();
	calling = 0;
}

static void on_interrupt(void)
{
	struct domain *domain = this_domain();

	/* Only the agent has requested the interrupt. */
	if (atomic_load(interrupt_flag(caml_state)) == MEMPROF_SWITCH_ASKS) {
		memprof_switch_look();
		return;
	}
	/* The functions that we call run pending actions, and with them this function. */
	if (caml_bt_is_self() || domain->working) {
		call(next.interrupt);
		return;
	}
	domain->working = 1;
	while (atomic_exchange(&domain->asked, 0)) {
		pass(domain);
		try_to_clear();
		call_back();
		join_session(domain);
	}
	domain->working = 0;
	call(next.interrupt);
	/* The hook of systhreads has cleared it, the runtime's own does not. */
	if (!atomic_load(&domain->asked))
		atomic_store(interrupt_flag(caml_state), memprof_switch_asks());
	memprof_switch_look();
}

/* Runs on a new domain, before its first OCaml code. */
static void begin_domain(void)
{
	memprof_domain_begins();
	memprof_switch_share();
	if (session_is_due())
		begin_gap(this_domain(), caml_state);
	if (memprof_activity.sampling) {
		memprof_seed_new_domain();
		ask_for_hook(caml_state);
	}
}

static void on_initialize(void)
{
	call(next.initialize);
	begin_domain();
}

/* A domain whose hook has raised runs no OCaml code. */
static value on_initialize_exn(void)
{
	static __thread int calling;
	value result = VAL_UNIT;

	if (next.initialize_exn && !calling) {
		calling = 1;
		result = next.initialize_exn();
		calling = 0;
	}
	if (!IS_EXCEPTION_RESULT(result))
		begin_domain();
	return result;
}

/* Runs on a domain that ends, after its last OCaml code except that of hooks. Reports pending
 * callbacks, because another domain would call them with an unknown callstack. */
static void on_stop(void)
{
	if (memprof_activity.sampling && memprof_domain_samples())
		(void)caml_memprof_run_callbacks_res();
	memprof_flush_domain(memprof_domain_index());
	memprof_switch_end(caml_state);
	pass(this_domain());
	end_gap(this_domain());
	memprof_domain_ends();
	call(next.stop);
}

/*
 * When systhreads is initialised, it replaces the existing hooks with its own. Therefore ours are
 * chained only when a session is wanted. They stay in place, because later hooks may call them.
 * Other domains call our hooks at once, so the hooks that ours call next are stored first.
 */
__attribute__((noinline)) static void chain_hooks(void)
{
	int no = 0;

	if (caml_domain_external_interrupt_hook == on_interrupt ||
	    !atomic_compare_exchange_strong(&chained, &no, 1))
		return;
	if (&caml_domain_initialize_hook)
		next.initialize = caml_domain_initialize_hook;
	else
		next.initialize_exn = caml_domain_initialize_hook_exn;
	next.stop = caml_domain_stop_hook;
	next.interrupt = caml_domain_external_interrupt_hook;
	if (&caml_domain_initialize_hook)
		memprof_set_hook(&caml_domain_initialize_hook, on_initialize);
	else
		__atomic_store_n(&caml_domain_initialize_hook_exn, on_initialize_exn,
				 __ATOMIC_RELEASE);
	memprof_set_hook(&caml_domain_stop_hook, on_stop);
	memprof_set_hook(&caml_domain_external_interrupt_hook, on_interrupt);
}

/*
 * If a session begins with the program, systhreads replaces our hooks afterwards. This chains them
 * again, once. Hooks that call ours cannot be distinguished from hooks that do not; call() ends a
 * recursion.
 */
void memprof_domains_keep_hooks(void)
{
	static atomic_int again;
	int no = 0;

	if (LIKELY(caml_domain_external_interrupt_hook == on_interrupt) || !memprof_share ||
	    !atomic_compare_exchange_strong(&again, &no, 1))
		return;
	atomic_store(&chained, 0);
	chain_hooks();
}

void memprof_domains_call_back(void)
{
	chain_hooks();
	if (!caml_bt_is_self())
		ask_for_hook(caml_state);
}

/* ------------------------------------------------------------------ sessions */

static atomic_int in_use;

static void check_use(domain_state *state)
{
	if (memprof_is_sampling(memprof_profile_of(state)))
		atomic_store(&in_use, 1);
}

int memprof_domains_in_use(void)
{
	atomic_store(&in_use, 0);
	return memprof_on_all_domains(check_use) ? atomic_load(&in_use) : -1;
}

void memprof_domains_start(void)
{
	chain_hooks();
	(void)memprof_on_all_domains(ask_for_hook); /* unreached domains are asked again */
}

void memprof_domains_remind(int session_is_over)
{
	if (may_join(this_domain()) || session_is_over)
		ask_for_hook(caml_state);
}

static void stop_here(domain_state *state)
{
	/* Every domain marks all profiles, because it may use the profile of a domain that gets
	 * here later. This domain does not sample from here on. */
	memprof_activity.sampling = 0;
	memprof_mark_profiles_stopped();
	memprof_flush_domain(memprof_domain_index());
	memprof_switch_end(state);
	caml_memprof_set_trigger(state);
	caml_reset_young_limit(state);
	if (session_is_due())
		begin_gap(this_domain(), state);
	check_use(state);
	if (caml_bt_is_self())
		return;
	if (!this_domain()->passing)
		atomic_fetch_add(&passes, 1);
	this_domain()->passing = 1;
	ask_for_hook(state);
}

int memprof_domains_stop(void)
{
	atomic_store(&in_use, 0);
	if (!memprof_on_all_domains(stop_here))
		return 0;
	if (!session_is_due())
		memprof_domains_clear();
	return 1;
}

int memprof_domains_in_use_at_stop(void) { return atomic_load(&in_use); }

void memprof_domains_clear(void)
{
	int none = 0;

	atomic_compare_exchange_strong(&clearing, &none, 1);
}

/* Runs in a section. A domain in a blocking section cannot be inside Memprof. */
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
	memprof_on_all_domains(pass_if_blocked);
	try_to_clear();
	return atomic_load(&clearing) == 0;
}

void memprof_domains_forget(void)
{
	if (!memprof_profiles_follow())
		return;
	memprof_domains_clear();
	(void)memprof_domains_cleared();
}
