/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1. Data. memprof_c_heap is shared with the watcher. Sampled blocks have a table of their own
 *    (sampled_blocks.h); each thread has 24 bytes for its count-down (sampler.h).
 * 2. Synchronisation. Sessions begin and end in memprof_c_heap_check(), in one thread at a time;
 *    other threads that come meanwhile skip it. The functions in slots run in all threads, before,
 *    during and after a session; memprof_c_session is the only state that guides them.
 * 3. End. Without a watcher, the first would-be sample ends the session, in any thread; the next
 *    minor collection restores the slots at its end. A program without further collections keeps
 *    our hooks: each call takes an additional jump. So does a forked child, which no one watches.
 *    A thread that was in the dynamic linker at the fork has left its lock locked (linker.h).
 */
#include "native_heap.h"

#include "native_blocks.h"
#include "buffers.h"
#include "linker.h"
#include "raw_syscall.h"
#include "sampler.h"
#include "slots.h"

/* Number of collections between two attempts to restore slots, if some could not be restored. */
#define MAX_PAUSE 4096u
/* A fork waits at most this long for an inspection of the program's files. */
#define MAX_FORK_WAIT_NS 1000000000u

static uint32_t pause, passed;

static void count_slots(const struct memprof_slots *found)
{
	memprof_c_heap.slots = found->ours;
	memprof_c_heap.slots_left = found->left;
}

static int patch(void)
{
	struct memprof_slots found;

	if (!memprof_slots_patch(&found))
		return 0;
	count_slots(&found);
	return 1;
}

static void stop(void)
{
	memprof_c_session = 0;
	memprof_blocking_end();
	if (memprof_c_heap.state != MEMPROF_NATIVE_HEAP_FOLLOWING)
		return;
	memprof_c_heap.stops++;
	memprof_c_heap.state = MEMPROF_NATIVE_HEAP_IDLE;
}

static void answer(enum memprof_c_heap_state state, uint32_t generation)
{
	memprof_c_heap.state = state;
	__atomic_store_n(&memprof_c_heap.generation, generation, __ATOMIC_RELEASE);
}

static void start(uint32_t generation, uint64_t interval)
{
	stop();
	if (interval < MEMPROF_NATIVE_HEAP_MIN_INTERVAL)
		interval = MEMPROF_NATIVE_HEAP_MIN_INTERVAL;
	if (!patch())
		return answer(memprof_linker_is_locked() ? MEMPROF_NATIVE_HEAP_LINKER_LOCKED
							 : MEMPROF_NATIVE_HEAP_UNSUPPORTED,
			      generation);
	if (memprof_c_heap.slots == 0 && memprof_c_heap.slots_left == 0)
		return answer(MEMPROF_NATIVE_HEAP_NO_SLOTS, generation);
	memprof_c_forget_blocks();
	memprof_c_sampler_set(interval);
	memprof_c_heap.interval = interval;
	memprof_c_heap.starts++;
	memprof_blocking_begin(memprof_c_heap.note_place);
	pause = 0;
	answer(MEMPROF_NATIVE_HEAP_FOLLOWING, generation);
	/* From here on all slots that free a block lead to our functions. */
	__atomic_store_n(&memprof_c_session, generation, __ATOMIC_RELEASE);
}

static void put_slots_back(void)
{
	struct memprof_slots found;

	stop();
	if (memprof_c_heap.slots == 0 || passed++ < pause)
		return;
	if (memprof_slots_restore(&found))
		count_slots(&found);
	passed = 0;
	if (memprof_c_heap.slots == 0)
		pause = 0;
	else if (pause < MAX_PAUSE)
		pause = 2 * pause + 1;
}

static void follow_libraries(void)
{
	if (memprof_slots_changed())
		(void)patch();
}

/* ------------------------------------------------------------------ turns */

/* Thread pointer of the thread that starts, stops, or searches for libraries; 0: none. */
static uintptr_t turn;
/* The thread that has taken the turn for a fork. */
static uintptr_t forking;

static uintptr_t this_thread(void) { return (uintptr_t)__builtin_thread_pointer(); }

int memprof_c_heap_take_turn(void)
{
	uintptr_t nobody = 0;

	return __atomic_compare_exchange_n(&turn, &nobody, this_thread(), 0, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

void memprof_c_heap_end_turn(void) { __atomic_store_n(&turn, 0, __ATOMIC_RELEASE); }

void memprof_c_heap_check(int wanted)
{
	uint32_t generation =
		__atomic_load_n(&memprof_c_heap.requested_generation, __ATOMIC_ACQUIRE);
	uint64_t interval = __atomic_load_n(&memprof_c_heap.requested_interval, __ATOMIC_RELAXED);

	if (!memprof_c_heap_take_turn())
		return;
	/* For forked children, which may not inspect files themselves. Not done at load time, when
	 * no one waits for it. */
	if (memprof_c_heap.syscall_filter == 0)
		memprof_linker_look();
	if (memprof_c_heap.syscall_filter == MEMPROF_NATIVE_HEAP_FILTERED)
		stop();
	else if (memprof_c_heap.syscall_filter != 0)
		/* continues with the existing slots until the watcher has inspected the process */
		;
	else if (!wanted || interval == 0 || generation == 0)
		put_slots_back();
	else if (generation != memprof_c_heap.generation)
		start(generation, interval);
	else if (memprof_c_session != 0)
		follow_libraries();
	memprof_c_heap_end_turn();
}

/* A child that is forked meanwhile would find the dynamic linker locked for ever, and a page of its
 * files open. A thread that forks in the middle of it, in a signal handler, must continue. */
void memprof_c_heap_before_fork(void)
{
	uint64_t until_ns = memprof_now_ns() + MAX_FORK_WAIT_NS;

	while (__atomic_load_n(&turn, __ATOMIC_RELAXED) != this_thread()) {
		if (memprof_c_heap_take_turn()) {
			forking = this_thread();
			return;
		}
		if (memprof_now_ns() > until_ns)
			return;
		raw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	}
}

void memprof_c_heap_after_fork(void)
{
	if (forking != this_thread())
		return;
	forking = 0;
	memprof_c_heap_end_turn();
}

void memprof_c_heap_forget(void)
{
	forking = 0;
	memprof_c_heap_end_turn();
	memprof_c_session = 0;
	memprof_blocking_end();
	memprof_c_heap.requested_interval = 0;
	memprof_c_heap.state = MEMPROF_NATIVE_HEAP_IDLE;
	memprof_c_heap.slots = 0; /* slots keep our functions, but the child does not count them */
	/* This is the only thread, so none is using what is forgotten. */
	memprof_c_forget_blocks();
}
