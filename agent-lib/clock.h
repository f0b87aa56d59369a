/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CLOCK_MONOTONIC for millions of records: read from time to time, and extrapolated by the
 * processor's time-stamp counter in between, which takes half the time.
 *
 *   read           read            read                        now = read + ticks * scale
 *   |-- > 1 ms ----|--- < 10 ms ---|--- < 10 ms ---|
 *   scale unknown:  scale of the span between the last two reads
 *   every call reads
 *
 * If the counter goes back or jumps, the clock is read again. The result never goes back either.
 */
#ifndef MEMPROF_CLOCK_H
#define MEMPROF_CLOCK_H

#include <stdint.h>

#define MEMPROF_CLOCK_SHIFT 20		   /* scale: nanoseconds a tick, times 1 << this */
#define MEMPROF_CLOCK_MIN_SPAN_NS 1000000u /* between two reads that determine the scale */
#define MEMPROF_CLOCK_MAX_SPAN_NS 1000000000u
/* A read that took longer was interrupted, so its two parts are from different moments. */
#define MEMPROF_CLOCK_MAX_READ_TICKS 65536u
#define MEMPROF_CLOCK_CARRY_NS 10000000u /* time for which a read is extrapolated */

struct memprof_clock {
	uint64_t ticks, ns; /* when the clock was last read successfully */
	uint64_t scale;
	uint64_t carry_ticks; /* 0: the scale is not known */
	uint64_t last_ns;     /* the last result */
};

/* Records that the clock showed ns when the counter was at ticks. */
static inline void memprof_clock_set(struct memprof_clock *clock, uint64_t ticks, uint64_t ns)
{
	uint64_t span_ns = ns - clock->ns, span_ticks = ticks - clock->ticks;

	if (clock->carry_ticks == 0 && span_ns < MEMPROF_CLOCK_MIN_SPAN_NS)
		return; /* the span continues */
	clock->ticks = ticks;
	clock->ns = ns;
	clock->carry_ticks = 0;
	if (span_ns < MEMPROF_CLOCK_MIN_SPAN_NS || span_ns > MEMPROF_CLOCK_MAX_SPAN_NS ||
	    span_ticks < span_ns / 16 || span_ticks > span_ns * 16)
		return; /* no processor is that slow or fast */
	clock->scale = (span_ns << MEMPROF_CLOCK_SHIFT) / span_ticks;
	clock->carry_ticks =
		((uint64_t)MEMPROF_CLOCK_CARRY_NS << MEMPROF_CLOCK_SHIFT) / clock->scale;
}

/* The time in nanoseconds. count() reads the counter, read() CLOCK_MONOTONIC. */
static inline uint64_t memprof_clock_now(struct memprof_clock *clock, uint64_t (*count)(void),
					 uint64_t (*read)(void))
{
	uint64_t ticks = count(), since = ticks - clock->ticks, ns;

	if (__builtin_expect(since < clock->carry_ticks, 1)) {
		ns = clock->ns + (since * clock->scale >> MEMPROF_CLOCK_SHIFT);
	} else {
		ns = read();
		if (count() - ticks < MEMPROF_CLOCK_MAX_READ_TICKS)
			memprof_clock_set(clock, ticks, ns);
	}
	if (ns < clock->last_ns)
		ns = clock->last_ns;
	clock->last_ns = ns;
	return ns;
}

#endif
