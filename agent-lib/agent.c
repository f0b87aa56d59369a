/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: drives the runtime's Memprof engine with a tracker that consists of static data and
 * machine code only. It owns no thread, allocates nothing on the OCaml heap and does nothing until
 * a watcher raises the semaphore of memprof:batch.
 *
 * 1. Data. The tracker, its five closures, the rate and the `Some id` block are
 *    static OCaml values outside the heap. memprof_agent_control is shared with
 *    the watcher (include/memprof_agent_abi.h).
 * 2. Synchronisation. Everything runs under the OCaml runtime lock: callbacks and
 *    hooks by construction, memprof_agent_poll because its caller guarantees it.
 * 3. Start: at the end of a minor collection, or in memprof_agent_poll. Both are
 *    places where the runtime may run OCaml code.
 * 4. Stop and rate change. OCaml 4: only inside a tracker callback, which proves that the running
 *    Memprof session is ours. A collection hook may run inside Memprof's own functions, where
 *    stopping would free data that they use. If the program has stopped the session itself, a start
 *    succeeds where it should fail (session.c); if it starts a tracker of its own, the session ends
 *    for that (make_room.c). OCaml 5: the rate may also change where a session may start
 *    (domains.c); until then the previous session continues. A tracker of the program takes the
 *    place of our profile in its domain (make_room5.c).
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
#include "native_heap/native_heap.h"
#include "native_heap/linker.h"
#include "domains.h"
#include "make_room.h"
#include "make_room5.h"
#include "walk/late_stacks.h"
#include "pauses.h"
#include "profiles.h"
#include "random.h"
#include "runtime_abi.h"
#include "session.h"
#include "share.h"
#include "snapshot.h"
#include "tracker.h"

static void (*next_minor_gc_end)(void);

static void at_minor_gc_end_of_session(void)
{
	uint64_t now_ns = memprof_now_ns();

	memprof_minor_pause_ended(now_ns);
	memprof_late_stacks_go_on();
	if (memprof_has_domains()) {
		memprof_domain_collected();
		memprof_domains_keep_hooks();
		memprof_room_take_slot();
		memprof_domains_remind(memprof_session_over());
	}
	memprof_batch_minor_gc_ended(memprof_domain_index(), now_ns);
	memprof_session_check(now_ns);
	if (memprof_has_domains())
		return;
	if (memprof_session_over()) /* only a callback can end a session of OCaml 4 */
		memprof_sample_next();
}

static void care_for_c_heap(void)
{
	memprof_c_heap_check(memprof_activity.watchers != 0 &&
			     memprof_now_ns() <= memprof_agent_control.requested_until_ns);
}

static void start_if_due(void)
{
	if (memprof_session_due() && !memprof_has_domains())
		memprof_room_take_hooks();
	memprof_session_start_if_due();
}

static void on_minor_gc_end(void)
{
	if (UNLIKELY(memprof_share_needs_care()))
		memprof_share_care();
	if (UNLIKELY(memprof_activity.any != 0 || memprof_profiles_follow())) {
		if (memprof_activity.sampling)
			at_minor_gc_end_of_session();
		else if (!memprof_has_domains())
			start_if_due();
		else if (memprof_session_due() || memprof_profiles_follow())
			memprof_domains_call_back();
	}
	if (UNLIKELY(memprof_c_heap_needs_care()))
		care_for_c_heap();
	if (UNLIKELY(memprof_snapshot_child != 0))
		memprof_snapshot_reap();
	if (next_minor_gc_end)
		next_minor_gc_end();
}

/*
 * Starts a session if one is wanted. To be called only where the runtime itself
 * would run callbacks, on a thread that holds the runtime lock.
 */
__attribute__((visibility("default"))) void memprof_agent_poll(void)
{
	if (memprof_agent_control.state == MEMPROF_AGENT_UNSUPPORTED)
		return;
	start_if_due();
	if (memprof_c_heap_needs_care())
		care_for_c_heap();
}

/* The OCaml side of the findlib package refers to this function, so that linking keeps the
 * agent. */
__attribute__((visibility("default"))) value memprof_agent_keep(value unit) { return unit; }

/* A child shares no watcher with its parent. It stops at its next callback, unless it gets a
 * watcher of its own there (memprof_share_join). */
static void in_forked_child(void)
{
	memprof_share_forked();
	memprof_agent_control.requested_rate = 0;
	memprof_linker_forked();
	memprof_c_heap_forget();
	memprof_batch_forget();
	memprof_snapshot_forget();
}

/* The runtime of bytecode has all of these but caml_c_call. It cannot call the agent's closures,
 * which are native. */
static int runtime_usable(void)
{
	return caml_c_call && caml_memprof_start && caml_memprof_stop && caml_callback_exn &&
	       &caml_minor_gc_end_hook;
}

__attribute__((constructor)) static void load(void)
{
	if (!runtime_usable()) {
		memprof_agent_control.state = MEMPROF_AGENT_UNSUPPORTED;
		memprof_share_no_runtime();
		return;
	}
	memprof_profiles_load(memprof_tracker_load(), memprof_tracker_alloc_minor());
	memprof_domains_load(memprof_session_work, memprof_session_due);
	memprof_late_stacks_load();
	pthread_atfork(memprof_c_heap_before_fork, memprof_c_heap_after_fork, in_forked_child);
	next_minor_gc_end = caml_minor_gc_end_hook;
	memprof_set_hook(&caml_minor_gc_end_hook, on_minor_gc_end);
	memprof_share_load();
}

/* When the program ends normally, sends the last records and takes a last snapshot if one was
 * requested. */
__attribute__((destructor)) static void unload(void)
{
	if (!memprof_activity.sampling)
		return;
	memprof_flush_all();
	memprof_snapshot_at_exit();
}
