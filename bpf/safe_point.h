/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Contract by which the daemon and the probe at the safe point choose one thread to borrow. A
 * thread that passes while the gate is watched is a hit, once per turn: it reports its id and waits
 * up to half a millisecond for an answer, so one pass is enough. Until then the program is not
 * changed. If the daemon does not answer, the program loses only that wait, once.
 *
 *   CLOSED --daemon--> WATCHED, a new turn --daemon--> OPEN for a reported thread --that one---+
 *                                                                                              |
 *     the signal is on its way to the thread, which the daemon has seized meanwhile: FIRED <---+
 *
 * The daemon returns to CLOSED from any state. safe_point.bpf.c explains why no signal can be sent
 * afterwards, and at most one before.
 */
#ifndef MEMPROF_SAFE_POINT_H
#define MEMPROF_SAFE_POINT_H

#include <linux/types.h>

enum memprof_gate {
	MEMPROF_GATE_CLOSED = 0,
	MEMPROF_GATE_WATCHED = 1,
	MEMPROF_GATE_OPEN = 2,
	MEMPROF_GATE_FIRED = 3,
};

/* Time for which a thread waits for an answer. */
#define MEMPROF_HIT_WAIT_NS 500000ull

/* Threads that may not report themselves. */
#define MEMPROF_SKIPPED_THREADS 8u

struct memprof_safe_point_hit {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 tid;     /* as the host numbers it */
	__u32 own_tid; /* as in gettid() of the thread */
};

#endif
