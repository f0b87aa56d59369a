/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <stdatomic.h>

#include "domains.h"
#include "make_room5.h"
#include "walk/late_stacks.h"
#include "walk/sample_switch.h"
#include "pauses.h"
#include "profiles.h"
#include "random.h"
#include "share.h"

/* Callstack size requested from the runtime if the kernel side walks the stack. */
#ifndef MEMPROF_CALLSTACK_SIZE
#define MEMPROF_CALLSTACK_SIZE 0
#endif

/* Number of samples to expect in an allocated amount; the probability of none at all is e^-64. */
#define SILENT_SAMPLES 64

/* One domain at a time starts or ends a session, or forgets what a session has followed. Others
 * that come here meanwhile continue, and will come again. */
static volatile int changing;

static int take_turn(void) { return __sync_bool_compare_and_swap(&changing, 0, 1); }

static void end_turn(void) { __sync_lock_release(&changing); }

/* The watcher is gone although the kernel has not noticed: no session until the next request. */
static void check_lease(uint64_t now_ns)
{
	if (UNLIKELY(now_ns > memprof_agent_control.requested_until_ns))
		memprof_agent_control.requested_rate = 0;
}

/* ------------------------------------------------------------------ start */

static int layout_is_known(void) { return !memprof_has_domains() || memprof_domains_usable(); }

int memprof_session_due(void)
{
	const struct memprof_agent_control *control = &memprof_agent_control;

	return !memprof_activity.sampling && memprof_session_wanted() &&
	       control->requested_generation != control->generation && layout_is_known();
}

/* Tests the watcher's offsets in this domain before others use them. Returns true if they are
 * right; -1: unknown, because the program samples. */
static int layout_is_right(void)
{
	static int is_right = -1;

	if (is_right < 0)
		is_right = memprof_profile_place_is_right();
	return is_right;
}

/* Set if the current turn has stopped a session, on all domains. */
static int just_stopped;

/* True if the program itself uses Memprof; -1: unknown, ask again later. */
static int in_use(void)
{
	if (memprof_has_domains() && just_stopped)
		return memprof_domains_in_use_at_stop();
	if (memprof_has_domains())
		return layout_is_right() < 0 ? 1 : memprof_domains_in_use();
	memprof_seed_program();
	return IS_EXCEPTION_RESULT(memprof_start_profile());
}

static void answer(enum memprof_agent_state state, uint32_t generation)
{
	memprof_agent_control.state = state;
	__atomic_store_n(&memprof_agent_control.generation, generation, __ATOMIC_RELEASE);
}

static intptr_t callstack_size(void)
{
	switch (memprof_agent_control.running_capture) {
	case MEMPROF_CAPTURE_BY_RUNTIME:
		return (intptr_t)MEMPROF_PACKED_FRAMES;
	case MEMPROF_CAPTURE_BY_AGENT:
		return memprof_has_domains() ? MEMPROF_UNWALKED_CALLSTACK_SIZE
					     : MEMPROF_WALKED_CALLSTACK_SIZE;
	default:
		return MEMPROF_CALLSTACK_SIZE;
	}
}

/* Returns the capture mode of a session that begins. */
static uint32_t capture_of_session(void)
{
	struct memprof_agent_control *control = &memprof_agent_control;

	if (control->requested_capture != MEMPROF_CAPTURE_BY_AGENT)
		return control->requested_capture;
	control->walk_state = MEMPROF_WALK_OK;
	if (!(memprof_has_domains() ? memprof_switch_is_possible() : memprof_walk_is_possible()))
		memprof_walk_failed(MEMPROF_WALK_UNKNOWN_RUNTIME);
	else if (!memprof_has_domains() && !memprof_late_stacks_are_possible())
		memprof_walk_failed(MEMPROF_WALK_ALLOCATOR);
	return control->walk_state == MEMPROF_WALK_OK ? MEMPROF_CAPTURE_BY_AGENT
						      : MEMPROF_CAPTURE_BY_RUNTIME;
}

/* OCaml 5: an event of a followed block was not reported. */
static atomic_int unsized;

int memprof_session_follows(void)
{
	if (!memprof_has_domains())
		return 0;
	if (memprof_session_wanted() && !memprof_share_is_of_another())
		return 1;
	atomic_store(&unsized, 1);
	return 0;
}

/* True if a session may begin. Profiles must not be discarded before all domains have passed. */
static int may_begin(void)
{
	if (!memprof_has_domains())
		return 1;
	if (atomic_load(&unsized))
		memprof_domains_clear();
	return memprof_domains_cleared();
}

/* The first session whose blocks a new session follows. No domain is in a callback that has not
 * been reported: all have been stopped since the session was requested. */
static uint32_t followed_since(uint32_t generation)
{
	if (!memprof_has_domains())
		return generation;
	if (atomic_exchange(&unsized, 0))
		memprof_discard_profiles();
	return memprof_discard_old_profiles(generation);
}

static void begin_session(double rate, uint32_t generation)
{
	struct memprof_agent_control *control = &memprof_agent_control;

	memprof_pauses_begin();
	if (control->running_capture == MEMPROF_CAPTURE_BY_AGENT && !memprof_has_domains())
		memprof_late_stacks_begin();
	control->rate = rate;
	control->starts++;
	control->followed_since = followed_since(generation);
	answer(MEMPROF_AGENT_SAMPLING, generation);
	memprof_announce(generation);
	/* Events of blocks of earlier sessions are reported as theirs meanwhile. */
	control->running_generation = generation;
	memprof_activity.sampling = 1;
	if (memprof_has_domains()) {
		memprof_room_take_slot();
		memprof_domains_start();
	}
}

static void stay_aside(uint32_t generation)
{
	memprof_agent_control.conflicts++;
	answer(MEMPROF_AGENT_ASIDE, generation);
}

static void start_session(void)
{
	struct memprof_agent_control *control = &memprof_agent_control;
	uint32_t generation = __atomic_load_n(&control->requested_generation, __ATOMIC_ACQUIRE);
	double rate = *(volatile double *)&control->requested_rate;
	int used;

	/* The request was withdrawn a moment ago. A session without a rate would have no callback,
	 * and only a callback can end it. */
	if (!(rate > 0) || memprof_share_is_of_another())
		return;
	memprof_share_begins_session();
	if (memprof_has_domains() && layout_is_right() == 0) {
		answer(MEMPROF_AGENT_UNSUPPORTED, generation);
		return;
	}
	/* In OCaml 4 callbacks may come before start returns. */
	if (!memprof_has_domains())
		control->running_generation = generation;
	control->running_capture = capture_of_session();
	memprof_set_profile(rate, callstack_size());
	used = in_use();
	if (used < 0)
		return; /* the end of the next minor collection calls this again */
	if (!used)
		begin_session(rate, generation);
	else if (control->state == MEMPROF_AGENT_ASIDE)
		stay_aside(generation);
	else
		answer(MEMPROF_AGENT_IN_USE, generation);
}

static void start_in_turn(void)
{
	check_lease(memprof_now_ns());
	if (memprof_session_due() && may_begin())
		start_session();
}

void memprof_session_start_if_due(void)
{
	static atomic_int again; /* a domain has come while another one had the turn */

	if (!memprof_session_due())
		return;
	atomic_store(&again, 1);
	while (atomic_load(&again) && take_turn()) {
		atomic_store(&again, 0);
		start_in_turn();
		end_turn();
	}
}

/* ------------------------------------------------------------------ stop */

static int stop_sampling(void)
{
	if (memprof_has_domains())
		return memprof_domains_stop();
	memprof_activity.sampling = 0;
	memprof_flush(0);
	caml_memprof_stop(VAL_UNIT);
	return 1;
}

static void note_stop(void)
{
	memprof_late_stacks_end();
	memprof_pauses_end();
	memprof_agent_control.stops++;
	memprof_agent_control.generation = 0;
	memprof_agent_control.state = MEMPROF_AGENT_IDLE;
}

int memprof_session_change(void)
{
	if (memprof_share_join())
		return 1;
	if (!take_turn())
		return 0;
	if (memprof_activity.sampling && stop_sampling()) { /* else the next callback tries again */
		note_stop();
		if (!memprof_session_wanted())
			memprof_share_leave();
		just_stopped = 1;
		start_in_turn();
		just_stopped = 0;
	}
	end_turn();
	memprof_session_start_if_due();
	return 0;
}

/* Forgets profiles that were kept for a due session, once it is no longer due. */
static void forget_if_not_due(void)
{
	if (!memprof_profiles_follow() || memprof_activity.sampling || !take_turn())
		return;
	if (!memprof_activity.sampling && !memprof_session_due())
		memprof_domains_forget();
	end_turn();
}

void memprof_session_work(void)
{
	if (memprof_activity.sampling && memprof_session_over())
		(void)memprof_session_change();
	else
		memprof_session_start_if_due();
	forget_if_not_due();
}

/* ------------------------------------------------------------------ stopped by the program */

/* The samples taken so far are forgotten, so only another session can continue. */
__attribute__((noinline)) void memprof_session_makes_room(void)
{
	caml_memprof_stop(VAL_UNIT);
	memprof_activity.sampling = 0;
	memprof_flush(0);
	note_stop();
	memprof_agent_control.program_stops++;
	answer(MEMPROF_AGENT_STOPPED, memprof_agent_control.running_generation);
}

/* OCaml 4: a start succeeds if the program has stopped Memprof, and our session with it. */
static void end_if_stopped(void)
{
	if (!IS_EXCEPTION_RESULT(memprof_start_profile()))
		memprof_session_makes_room();
}

void memprof_session_is_aside(void) { stay_aside(memprof_agent_control.running_generation); }

void memprof_session_memprof_stops(void)
{
	if (memprof_agent_control.state == MEMPROF_AGENT_ASIDE)
		answer(MEMPROF_AGENT_STOPPED, memprof_agent_control.generation);
}

/* If this much was allocated without a callback, checks whether our session still runs, and then
 * less and less often, because the check raises an exception if the program itself samples. */
static void check_silence(void)
{
	static uint64_t records;
	static double words, patience_words;
	uint64_t now_records = memprof_records_of(0) + memprof_agent_control.starts;
	double now_words;

	if (!caml_gc_minor_words_unboxed)
		return;
	now_words = caml_gc_minor_words_unboxed();
	if (now_records != records) {
		records = now_records;
		words = now_words;
		patience_words = SILENT_SAMPLES / memprof_agent_control.rate;
	} else if (now_words - words > patience_words) {
		patience_words *= 2;
		end_if_stopped();
	}
}

void memprof_session_check(uint64_t now_ns)
{
	check_lease(now_ns);
	if (!memprof_has_domains())
		check_silence();
}
