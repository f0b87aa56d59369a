/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Limit on the cost of probe hits for a program, shared with the daemon (hit_budget.bpf.h).
 */
#ifndef MEMPROF_HIT_BUDGET_H
#define MEMPROF_HIT_BUDGET_H

#include <linux/types.h>

#include "calls.h"

struct memprof_hit_budget {
	__u64 most; /* maximum hits per second of CLOCK_MONOTONIC; set before load */
	__u64 hits;
	__u64 second; /* the second that is being counted */
	__u64 second_hits;
	__u64 off_ns; /* CLOCK_MONOTONIC when the probes were switched off */
	__u32 off;    /* enum memprof_calls_off */
	__u32 armed;  /* written only by the daemon */
};

#endif
