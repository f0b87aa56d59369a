/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Identity of the target and the header of its events, common to all BPF objects of a target.
 */
#ifndef MEMPROF_TARGET_BPF_H
#define MEMPROF_TARGET_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include "drops.bpf.h"
#include "event_maps.bpf.h"
#include "events.h"

/* Set before load. */
const volatile __u32 target_pid = 0;  /* as the daemon numbers it; copied into events */
const volatile __u32 target_tgid = 0; /* in the target's own pid namespace */
const volatile __u64 pid_namespace_device = 0;
const volatile __u64 pid_namespace_inode = 0; /* 0: count pids as the host does */
const volatile __u64 wakeup_bytes = 1;	      /* ring fill from which the daemon is woken */

/* Thread id as in gettid() of the program; 0 if the thread is not the target's. */
static __always_inline __u32 target_tid(void)
{
	struct bpf_pidns_info ids = {};

	if (pid_namespace_inode == 0) {
		__u64 both = bpf_get_current_pid_tgid();

		ids.tgid = both >> 32;
		ids.pid = (__u32)both;
	} else if (bpf_get_ns_current_pid_tgid(pid_namespace_device, pid_namespace_inode, &ids,
					       sizeof(ids)) != 0) {
		return 0;
	}
	if (ids.tgid != target_tgid)
		return 0;
	return ids.pid;
}

/* Samples wake the daemon only when the ring fills faster than it polls. Events of the whole
 * program wake it at once. */
static __always_inline __u64 wakeup_flags(void)
{
	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= wakeup_bytes)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

static __always_inline void fill_header(struct memprof_event_header *header, __u32 kind, __u32 tid)
{
	header->kind = kind;
	header->tgid = target_pid;
	header->tid = tid;
	header->captures_dropped = (__u32)captures_dropped;
	header->time_ns = bpf_ktime_get_ns();
}

#endif
