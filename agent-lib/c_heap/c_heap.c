/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1. Data. memprof_c_heap is shared with the watcher. Sampled blocks are in a table of their own
 *    (sampled_blocks.h), the count-down of each thread in 24 bytes of its own (sampler.h).
 * 2. Synchronisation. Sessions begin and end in memprof_c_heap_check(), one thread at a time, who
 *    comes meanwhile goes on. The functions in slots run in all threads, whatever session begins
 *    or ends; memprof_c_session is what they go by.
 * 3. Who dies. Without a watcher the first sample that would be ends the session, in any thread;
 *    the slots are put back at the end of the next minor collection. A program that has none any
 *    more keeps them: its calls take a jump more.
 */
#include "c_heap.h"

#include "c_blocks.h"
#include "sampler.h"
#include "slots.h"

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
	if (memprof_c_heap.state != MEMPROF_C_HEAP_FOLLOWING)
		return;
	memprof_c_heap.stops++;
	memprof_c_heap.state = MEMPROF_C_HEAP_IDLE;
}

static void answer(enum memprof_c_heap_state state, uint32_t generation)
{
	memprof_c_heap.state = state;
	__atomic_store_n(&memprof_c_heap.generation, generation, __ATOMIC_RELEASE);
}

static void start(uint32_t generation, uint64_t interval)
{
	stop();
	if (interval < MEMPROF_C_HEAP_MIN_INTERVAL)
		interval = MEMPROF_C_HEAP_MIN_INTERVAL;
	if (!patch())
		return answer(MEMPROF_C_HEAP_UNSUPPORTED, generation);
	if (memprof_c_heap.slots == 0)
		return answer(MEMPROF_C_HEAP_NO_SLOTS, generation);
	memprof_c_forget_blocks();
	memprof_c_sampler_set(interval);
	memprof_c_heap.interval = interval;
	memprof_c_heap.starts++;
	answer(MEMPROF_C_HEAP_FOLLOWING, generation);
	/* Now that all slots that free a block are seen. */
	__atomic_store_n(&memprof_c_session, generation, __ATOMIC_RELEASE);
}

static void put_slots_back(void)
{
	struct memprof_slots found;

	stop();
	if (memprof_c_heap.slots != 0 && memprof_slots_restore(&found))
		count_slots(&found);
}

static void follow_libraries(void)
{
	if (memprof_slots_changed())
		(void)patch();
}

void memprof_c_heap_check(int wanted)
{
	static volatile int turn;
	uint32_t generation =
		__atomic_load_n(&memprof_c_heap.requested_generation, __ATOMIC_ACQUIRE);
	uint64_t interval = __atomic_load_n(&memprof_c_heap.requested_interval, __ATOMIC_RELAXED);

	if (!__sync_bool_compare_and_swap(&turn, 0, 1))
		return;
	if (!wanted || interval == 0 || generation == 0)
		put_slots_back();
	else if (generation != memprof_c_heap.generation)
		start(generation, interval);
	else if (memprof_c_session != 0)
		follow_libraries();
	__sync_lock_release(&turn);
}

void memprof_c_heap_forget(void)
{
	memprof_c_session = 0;
	memprof_c_heap.requested_interval = 0;
	memprof_c_heap.state = MEMPROF_C_HEAP_IDLE;
	/* No thread may be in the middle of what is forgotten: there is but this one. */
	memprof_c_forget_blocks();
}
