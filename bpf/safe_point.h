/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How the daemon and the probe at the safe point agree on one thread to borrow. A thread that
 * passes while the gate is watched knocks: it says who it is and waits some hundred microseconds
 * for an answer, so that one pass is enough. Until it has knocked nothing is done to the program,
 * and a daemon that does not answer costs it that wait, once.
 *
 *   CLOSED --daemon--> WATCHED --a thread passes--> KNOCKED --daemon--> OPEN --that thread-->
 * FIRING
 *                                                                                               |
 *     the signal is on its way to the thread, which the daemon has seized meanwhile: FIRED <----+
 *
 * The daemon may go back to CLOSED from anywhere but FIRING, which it waits for the end of.
 */
#ifndef MEMPROF_SAFE_POINT_H
#define MEMPROF_SAFE_POINT_H

#include <linux/types.h>

enum memprof_gate {
	MEMPROF_GATE_CLOSED = 0,
	MEMPROF_GATE_WATCHED = 1,
	MEMPROF_GATE_KNOCKED = 2,
	MEMPROF_GATE_OPEN = 3,
	MEMPROF_GATE_FIRING = 4,
	MEMPROF_GATE_FIRED = 5,
};

/* How long a thread waits for an answer to its knock. */
#define MEMPROF_KNOCK_WAIT_NS 500000ull

/* Threads that are not let knock. */
#define MEMPROF_SKIPPED_THREADS 8u

struct memprof_knock {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 tid;     /* as the host numbers threads */
	__u32 own_tid; /* as the thread's gettid() says */
};

#endif
