/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: drives the runtime's Memprof engine with a tracker that is static
 * data and machine code only. It owns no thread, allocates nothing on the OCaml
 * heap and does nothing until somebody raises the semaphore of memprof:batch.
 *
 * 1. Data. The tracker, its five closures, the rate and the `Some id` block are
 *    static OCaml values outside the heap. memprof_agent_control is shared with
 *    the watcher (include/memprof_agent_abi.h).
 * 2. Synchronisation. Everything runs under the OCaml runtime lock: callbacks and
 *    hooks by construction, memprof_agent_poll because its caller guarantees it.
 * 3. Start: at the end of a minor collection, or in memprof_agent_poll. Both are
 *    places where the runtime may run OCaml code.
 * 4. Stop and rate change: only inside a tracker callback, which proves that the
 *    running Memprof session is ours. A collection hook may run inside Memprof's
 *    own functions, where stopping would free what they use.
 *
 *     watcher             agent
 *     rate, generation=1
 *     semaphore 0 -> 1
 *                         minor GC ends: start(rate), generation=1, announce
 *                         callbacks append records, full batches hit the probe
 *     semaphore 1 -> 0    (also when the watcher is killed), or the lease runs out
 *                         next callback: flush, stop
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "batch.h"
#include "domains.h"
#include "pauses.h"
#include "runtime_abi.h"
#include "session.h"
#include "static_value.h"
#include "tracker.h"

/* Callstack size asked of the runtime when the kernel side walks the stack instead. */
#ifndef MEMPROF_CALLSTACK_SIZE
#define MEMPROF_CALLSTACK_SIZE 0
#endif

extern value memprof_stub5_start(void);
STATIC_CLOSURE(start, memprof_stub_start);

static value tracker;

static struct {
	uint64_t header;
	double rate;
} rate_block = {STATIC_HEADER(1, DOUBLE_TAG), 0};

static void (*next_minor_gc_end)(void);

/* ------------------------------------------------------------------ sessions */

/* Runs inside caml_callback_exn: raises when the program uses Memprof itself. */
value memprof_start_body(value unit)
{
	(void)unit;
	intptr_t size = MEMPROF_CALLSTACK_SIZE;

	if (memprof_agent_control.running_capture == MEMPROF_CAPTURE_BY_RUNTIME)
		size = MEMPROF_PACKED_FRAMES;
	return caml_memprof_start(VALUE_OF(rate_block), VAL_LONG(size), tracker);
}

/* The watcher is gone without the kernel having noticed: no session until the
 * next request. */
static void check_lease(uint64_t now_ns)
{
	if (UNLIKELY(now_ns > memprof_agent_control.requested_until_ns))
		memprof_agent_control.requested_rate = 0;
}

value memprof_start_profile(void) { return caml_callback_exn(VALUE_OF(start), VAL_UNIT); }

/* Whether the program uses Memprof itself; -1: not known, ask again later. */
static int in_use(void)
{
	if (memprof_has_domains())
		return memprof_domains_in_use();
	return IS_EXCEPTION_RESULT(memprof_start_profile());
}

static void start_session(void)
{
	struct memprof_agent_control *control = &memprof_agent_control;
	uint32_t generation = __atomic_load_n(&control->requested_generation, __ATOMIC_ACQUIRE);
	double rate = *(volatile double *)&control->requested_rate;
	int used;

	/* Withdrawn a moment ago: a session without a rate has no callback, and only a
	 * callback can end it. */
	if (!(rate > 0))
		return;
	rate_block.rate = rate;
	/* Callbacks may come before start returns. */
	control->running_generation = generation;
	control->running_capture = control->requested_capture;
	used = in_use();
	if (used < 0)
		return; /* the end of the next minor collection has us called again */
	if (used) {
		control->state = MEMPROF_AGENT_IN_USE;
		__atomic_store_n(&control->generation, generation, __ATOMIC_RELEASE);
		return;
	}
	memprof_pauses_begin();
	control->rate = rate_block.rate;
	control->starts++;
	control->state = MEMPROF_AGENT_SAMPLING;
	__atomic_store_n(&control->generation, generation, __ATOMIC_RELEASE);
	memprof_announce(generation);
	memprof_activity.sampling = 1;
	if (memprof_has_domains())
		memprof_domains_start(memprof_tracker_alloc_minor());
}

/* A refused generation is not tried again. */
static int start_due(void)
{
	const struct memprof_agent_control *control = &memprof_agent_control;

	return !memprof_activity.sampling && memprof_session_wanted() &&
	       control->requested_generation != control->generation &&
	       (!memprof_has_domains() || memprof_domains_usable());
}

/* One domain at a time starts or ends a session; others that come here meanwhile go on
 * and will come again. */
static volatile int changing;

static int take_turn(void) { return __sync_bool_compare_and_swap(&changing, 0, 1); }

static void end_turn(void) { __sync_lock_release(&changing); }

static void start_if_wanted(void)
{
	if (!start_due() || !take_turn())
		return;
	check_lease(memprof_now_ns());
	if (start_due() && memprof_domains_cleared())
		start_session();
	end_turn();
}

static int stop_sampling(void)
{
	if (memprof_has_domains())
		return memprof_domains_stop();
	memprof_flush(0);
	caml_memprof_stop(VAL_UNIT);
	return 1;
}

static void note_stop(void)
{
	struct memprof_agent_control *control = &memprof_agent_control;

	memprof_pauses_end();
	control->stops++;
	control->generation = 0;
	control->state = MEMPROF_AGENT_IDLE;
}

void memprof_session_change(void)
{
	if (!take_turn())
		return;
	if (memprof_activity.sampling) {
		memprof_activity.sampling = 0;
		if (stop_sampling())
			note_stop();
		else
			memprof_activity.sampling = 1; /* the next callback tries again */
	}
	end_turn();
	start_if_wanted();
}

/* ------------------------------------------------------------- life of the agent */

static void at_minor_gc_end_of_session(void)
{
	uint64_t now_ns = memprof_now_ns();

	check_lease(now_ns);
	memprof_minor_pause_ended(now_ns);
	if (memprof_has_domains()) {
		memprof_domains_note_heap();
		memprof_domains_remind();
	}
	memprof_batch_minor_gc_ended(memprof_buffer_index(), now_ns);
}

static void on_minor_gc_end(void)
{
	if (UNLIKELY(memprof_activity.any != 0)) {
		if (memprof_activity.sampling)
			at_minor_gc_end_of_session();
		else if (!memprof_has_domains())
			start_if_wanted();
		else if (start_due())
			memprof_domains_call_back();
	}
	if (next_minor_gc_end)
		next_minor_gc_end();
}

void memprof_domains_work(void) { start_if_wanted(); }

/*
 * Starts a session if one is wanted. To be called only where the runtime itself
 * would run callbacks, on a thread that holds the runtime lock.
 */
__attribute__((visibility("default"))) void memprof_agent_poll(void)
{
	if (memprof_agent_control.state != MEMPROF_AGENT_UNSUPPORTED)
		start_if_wanted();
}

/* Referenced by the OCaml side of the findlib package, so that linking keeps the agent. */
__attribute__((visibility("default"))) value memprof_agent_keep(value unit) { return unit; }

/* The child shares no watcher with its parent: it stops at its next callback. */
static void in_forked_child(void)
{
	memprof_agent_control.requested_rate = 0;
	memprof_batch_forget();
}

static int runtime_usable(void)
{
	return caml_memprof_start && caml_memprof_stop && caml_callback_exn &&
	       &caml_minor_gc_end_hook;
}

__attribute__((constructor)) static void load(void)
{
	if (!runtime_usable()) {
		memprof_agent_control.state = MEMPROF_AGENT_UNSUPPORTED;
		return;
	}
	if (memprof_has_domains())
		start.code = memprof_stub5_start;
	tracker = memprof_tracker_load();
	pthread_atfork(NULL, NULL, in_forked_child);
	next_minor_gc_end = caml_minor_gc_end_hook;
	caml_minor_gc_end_hook = on_minor_gc_end;
}

/* The last records, when the program ends normally. */
__attribute__((destructor)) static void unload(void)
{
	if (!memprof_activity.sampling)
		return;
	for (uint32_t i = 0; i < memprof_agent_control.buffers_used; i++)
		memprof_flush(i);
}
