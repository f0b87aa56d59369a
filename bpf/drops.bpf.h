/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Counters of events and losses. Additions are atomic although the maps are per CPU: another
 * thread's program may preempt this one in between.
 */
#ifndef MEMPROF_DROPS_BPF_H
#define MEMPROF_DROPS_BPF_H

#include "event_maps.bpf.h"

/* Captures lost so far; every capture event carries it. */
__u64 captures_dropped = 0;

static __always_inline void count_drop(__u32 reason)
{
	__u64 *value = bpf_map_lookup_elem(&drops, &reason);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline void count_capture_drop(__u32 reason)
{
	__sync_fetch_and_add(&captures_dropped, 1);
	count_drop(reason);
}

static __always_inline void count_done(__u32 what)
{
	__u64 *value = bpf_map_lookup_elem(&counts, &what);

	if (value)
		__sync_fetch_and_add(value, 1);
}

#endif
