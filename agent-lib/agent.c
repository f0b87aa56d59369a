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

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Callstack size asked of the runtime when the kernel side walks the stack instead. */
#ifndef MEMPROF_CALLSTACK_SIZE
#define MEMPROF_CALLSTACK_SIZE 0
#endif

struct static_closure {
	uint64_t header;
	value (*code)(void);
	uint64_t info;
};

#define STATIC_CLOSURE(name, stub)                                                                 \
	extern value stub(void);                                                                   \
	static struct static_closure name = {STATIC_HEADER(2, CLOSURE_TAG), stub,                  \
					     CLOSURE_INFO_ARITY_1}
#define VALUE_OF(block) ((value)((uint64_t *)&(block) + 1))

STATIC_CLOSURE(alloc_minor, memprof_stub_alloc_minor);
STATIC_CLOSURE(alloc_major, memprof_stub_alloc_major);
STATIC_CLOSURE(promote, memprof_stub_promote);
STATIC_CLOSURE(dealloc_minor, memprof_stub_dealloc_minor);
STATIC_CLOSURE(dealloc_major, memprof_stub_dealloc_major);
STATIC_CLOSURE(start, memprof_stub_start);

/* Where OCaml 5 enters. */
extern value memprof_stub5_alloc_minor(void), memprof_stub5_alloc_major(void);
extern value memprof_stub5_promote(void), memprof_stub5_start(void);
extern value memprof_stub5_dealloc_minor(void), memprof_stub5_dealloc_major(void);

static struct {
	uint64_t header;
	value callbacks[5];
} tracker = {STATIC_HEADER(5, 0), {0}};

static struct {
	uint64_t header;
	double rate;
} rate_block = {STATIC_HEADER(1, DOUBLE_TAG), 0};

/* The runtime reads the field as soon as the callback returns, so that one block serves
 * all callbacks of a domain. Headers are filled in when the agent is loaded. */
static struct {
	uint64_t header;
	value id;
} some_id[MEMPROF_BUFFERS];

static void (*next_minor_gc_end)(void);

/* ------------------------------------------------------------------ sessions */

/* Runs inside caml_callback_exn: raises when the program uses Memprof itself. */
value memprof_start_body(value unit)
{
	(void)unit;
	intptr_t size = MEMPROF_CALLSTACK_SIZE;

	if (memprof_agent_control.running_capture == MEMPROF_CAPTURE_BY_RUNTIME)
		size = MEMPROF_PACKED_FRAMES;
	return caml_memprof_start(VALUE_OF(rate_block), VAL_LONG(size), VALUE_OF(tracker));
}

static int session_wanted(void)
{
	return memprof_activity.watchers != 0 && memprof_agent_control.requested_rate > 0;
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
		memprof_domains_start(VALUE_OF(alloc_minor));
}

/* A refused generation is not tried again. */
static int start_due(void)
{
	const struct memprof_agent_control *control = &memprof_agent_control;

	return !memprof_activity.sampling && session_wanted() &&
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

/* Only inside a tracker callback. */
static void change_session(void)
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

static inline int session_over(void)
{
	return !session_wanted() ||
	       memprof_agent_control.requested_generation != memprof_agent_control.generation;
}

/* ----------------------------------------------------------- tracker callbacks */

/* What the block is followed by. */
static value follow(uint32_t buffer, value id)
{
	some_id[buffer].id = id;
	return VALUE_OF(some_id[buffer]);
}

/* Whether a callback of the session that runs; else of one that has ended. */
static inline __attribute__((always_inline)) int in_session(void)
{
	if (LIKELY(memprof_activity.sampling && !session_over()))
		return 1;
	if (memprof_activity.sampling)
		change_session();
	return 0;
}

static uint32_t saturated(uint64_t n) { return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n; }

/* What happened to a block that is followed. */
static void append_follow(value id, enum memprof_record_kind kind)
{
	struct memprof_record record = {
		.sample_id = (uint64_t)LONG_VAL(id),
		.origin = MEMPROF_ORIGIN(0, 0, kind),
	};

	memprof_append(memprof_buffer_index(), &record, VAL_UNIT);
}

static value on_alloc(value info, enum memprof_record_kind kind)
{
	struct memprof_record record = {
		.size_words = (uint64_t)LONG_VAL(FIELD(info, 1)),
		.n_samples = saturated((uint64_t)LONG_VAL(FIELD(info, 0))),
		.origin = MEMPROF_ORIGIN(0, LONG_VAL(FIELD(info, 2)), kind),
	};
	uint32_t buffer;

	if (UNLIKELY(!in_session()))
		return VAL_UNIT;
	buffer = memprof_buffer_index();
	record.sample_id = memprof_new_sample_id(buffer);
	memprof_append(buffer, &record, FIELD(info, 3));
#ifdef MEMPROF_ON_CALLSTACK
	MEMPROF_ON_CALLSTACK(record.sample_id, FIELD(info, 3));
#endif
	return follow(buffer, VAL_LONG(record.sample_id));
}

value memprof_on_alloc_minor(value info) { return on_alloc(info, MEMPROF_ALLOC_MINOR); }

value memprof_on_alloc_major(value info) { return on_alloc(info, MEMPROF_ALLOC_MAJOR); }

value memprof_on_promote(value id)
{
	if (UNLIKELY(!in_session()))
		return VAL_UNIT;
	append_follow(id, MEMPROF_PROMOTE);
	return follow(memprof_buffer_index(), id);
}

static value on_dealloc(value id, enum memprof_record_kind kind)
{
	if (LIKELY(in_session()))
		append_follow(id, kind);
	return VAL_UNIT;
}

value memprof_on_dealloc_minor(value id) { return on_dealloc(id, MEMPROF_DEALLOC_MINOR); }

value memprof_on_dealloc_major(value id) { return on_dealloc(id, MEMPROF_DEALLOC_MAJOR); }

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

static void use_stubs_of_ocaml5(void)
{
	alloc_minor.code = memprof_stub5_alloc_minor;
	alloc_major.code = memprof_stub5_alloc_major;
	promote.code = memprof_stub5_promote;
	dealloc_minor.code = memprof_stub5_dealloc_minor;
	dealloc_major.code = memprof_stub5_dealloc_major;
	start.code = memprof_stub5_start;
}

__attribute__((constructor)) static void load(void)
{
	const struct static_closure *closures[5] = {&alloc_minor, &alloc_major, &promote,
						    &dealloc_minor, &dealloc_major};

	if (!runtime_usable()) {
		memprof_agent_control.state = MEMPROF_AGENT_UNSUPPORTED;
		return;
	}
	if (caml_memprof_discard)
		use_stubs_of_ocaml5();
	for (int i = 0; i < 5; i++)
		tracker.callbacks[i] = VALUE_OF(*closures[i]);
	for (unsigned i = 0; i < MEMPROF_BUFFERS; i++)
		some_id[i].header = STATIC_HEADER(1, 0);
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
