/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of this program, for its two writers: C code and the OCaml stubs. */
#ifndef MEMPROF_VALUES_REGISTRY_H
#define MEMPROF_VALUES_REGISTRY_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "memprof_values_abi.h"

extern struct memprof_values memprof_values_registry __attribute__((visibility("hidden")));

/* A text from the program; it need not end with a 0. */
struct memprof_text {
	const char *bytes;
	size_t count;
};

/* Returns the slot of that name and labels, and creates it if necessary; the "other" slot if there
 * is no room. */
uint32_t memprof_values_slot(enum memprof_slot_kind kind, struct memprof_text name,
			     struct memprof_text labels, struct memprof_text unit);
/* Returns the lane of a domain that has none yet, or shares one. */
uint32_t memprof_values_lane(uint32_t domain);
int memprof_values_observed(void);
void memprof_values_add_line(enum memprof_log_kind kind, uint32_t slot, struct memprof_text text);

/* Begins a pause, at which viewers stop, and returns its number, from 1 on. is_waiting: the program
 * waits until a viewer has memprofd resume it. */
uint64_t memprof_values_begin_pause(struct memprof_text name, int is_waiting);
/* Returns 1 if a viewer has resumed the program, and -1 after until_ns of CLOCK_MONOTONIC.
 * Otherwise sleeps for some milliseconds and returns 0. */
int memprof_values_wait(uint64_t pause, uint64_t until_ns);
void memprof_values_end_wait(void);

/* Settings that a watcher has written for a slot, MEMPROF_CONTROL_.... */
static inline __u32 memprof_values_control(uint32_t slot)
{
	return __atomic_load_n(&memprof_values_registry.slots[slot % MEMPROF_VALUES_SLOTS].control,
			       __ATOMIC_RELAXED);
}

/* Sets a value: its type, number, or the bits of a double, and text. */
void memprof_values_set(uint32_t slot, enum memprof_value_type type, uint64_t number,
			struct memprof_text text);

/* Encloses writes of several words by any thread. unlock sets the next even number. */
void memprof_values_lock(__u64 *seq);

static inline void memprof_values_unlock_as(__u64 *done, __u64 *seq, __u64 next)
{
	__atomic_store_n(done, next, __ATOMIC_RELEASE);
	__atomic_store_n(seq, next, __ATOMIC_RELEASE);
}

static inline void memprof_values_unlock(__u64 *done, __u64 *seq)
{
	memprof_values_unlock_as(done, seq, *seq + 1);
}

static inline uint64_t memprof_values_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t memprof_values_ticks(void)
{
#ifdef __x86_64__
	if (__builtin_expect(memprof_values_registry.head.clock == MEMPROF_VALUES_TSC, 1))
		return __builtin_ia32_rdtsc();
#endif
	return memprof_values_ns(CLOCK_MONOTONIC);
}

static inline struct memprof_timer_cell *memprof_values_timer(uint32_t lane, uint32_t cell)
{
	return &memprof_values_registry.lanes[lane].timers[cell % MEMPROF_VALUES_TIMERS];
}

/* Meanwhile the caller must be the only writer of the cell and its histogram. */
static inline void memprof_timer_count(uint32_t lane, uint32_t timer, uint64_t started,
				       uint64_t now)
{
	struct memprof_timer_cell *cell = memprof_values_timer(lane, timer);
	struct memprof_timer_histogram *histogram =
		&memprof_values_registry.histograms[lane].timers[timer % MEMPROF_VALUES_TIMERS];
	uint64_t ticks = now > started ? now - started : 0; /* counters may differ by a little */

	cell->starts++;
	cell->stops++;
	cell->sum_ticks += ticks;
	if (ticks > cell->max_ticks)
		cell->max_ticks = ticks;
	histogram->sum_ticks += ticks;
	histogram->counts[memprof_values_bucket(ticks)]++;
}

#endif
