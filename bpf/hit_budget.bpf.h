/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A budget of probe hits per second of the kernel's clock. A hit beyond it switches all probes off
 * permanently. */
#ifndef MEMPROF_HIT_BUDGET_BPF_H
#define MEMPROF_HIT_BUDGET_BPF_H

#include "hit_budget.h"

/* Shared with the daemon. */
volatile struct memprof_hit_budget budget = {};

static __always_inline void switch_hits_off(__u32 why, __u64 now)
{
	if (budget.off != MEMPROF_CALLS_ON)
		return;
	budget.off_ns = now;
	budget.off = why;
}

/* True if some of this second's budget remains. Two threads that begin a second at the same time
 * may exceed it by a few hits. */
static __always_inline bool pay_hits(__u64 now, __u64 hits)
{
	__u64 own_second = now / 1000000000ULL;

	if (budget.second != own_second) {
		budget.second = own_second;
		budget.second_hits = 0;
	}
	if (__sync_fetch_and_add(&budget.second_hits, hits) < budget.most)
		return true;
	switch_hits_off(MEMPROF_CALLS_OVER_BUDGET, now);
	return false;
}

#endif
