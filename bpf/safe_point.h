/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How the daemon and the probe at the safe point agree on one thread to borrow. A thread that
 * passes while the gate is watched knocks, once in a turn: it says who it is and waits some hundred
 * microseconds for an answer, so that one pass is enough. Until it has knocked nothing is done to
 * the program, and a daemon that does not answer costs it that wait, once.
 *
 *   CLOSED --daemon--> WATCHED, a new turn --daemon--> OPEN for one who knocked --that thread--+
 *                                                                                              |
 *     the signal is on its way to the thread, which the daemon has seized meanwhile: FIRED <---+
 *
 * The daemon goes back to CLOSED from anywhere. safe_point.bpf.c says why that is enough for no
 * signal to be sent afterwards, and for no more than one to be sent before.
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
