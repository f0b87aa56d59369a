/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How the daemon and the probes at functions agree (calls.bpf.c): what a probe is told of its
 * place, what is counted, and each limit. All integers are little-endian.
 */
#ifndef MEMPROF_CALLS_H
#define MEMPROF_CALLS_H

#include <linux/types.h>

/* Functions of one request. */
#define MEMPROF_CALL_FUNCTIONS 2000u

/* What a probe's cookie says. Which function: its index. */
#define MEMPROF_CALL_COOKIE(function) ((__u64)(function))
#define MEMPROF_CALL_FUNCTION(cookie) ((__u32)(cookie)&0xffffu)

/* What one function did, since the probes were armed. */
struct memprof_call_counts {
	__u64 calls;
};

/* Why nothing is counted any more. */
enum memprof_calls_off {
	MEMPROF_CALLS_ON = 0,
	MEMPROF_CALLS_OVER_BUDGET = 1, /* more hits in one second than were granted */
	MEMPROF_CALLS_EXEC = 2,	       /* the process has become another program */
};

#ifdef __cplusplus
static_assert(sizeof(struct memprof_call_counts) == 8, "memprof_call_counts");
#else
_Static_assert(sizeof(struct memprof_call_counts) == 8, "memprof_call_counts");
#endif

#endif
