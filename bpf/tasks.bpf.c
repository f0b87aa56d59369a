// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Programs that read the kernel's own structures and so need its type information (BTF). Loaded
 * only if one of them is wanted.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "events.h"
#include "kernel_types.bpf.h"
#include "program_end.bpf.h"
#include "target.bpf.h"
#include "thread_pointers.bpf.h"

static __always_inline int send_fork(__u32 tid, __u32 child)
{
	struct memprof_fork event = {.child = child};

	fill_header(&event.header, MEMPROF_EVENT_FORK, tid);
	event.header.captures_dropped = 0;
	if (bpf_ringbuf_output(&events, &event, sizeof(event), BPF_RB_FORCE_WAKEUP) != 0)
		count_drop(MEMPROF_DROP_LIFECYCLE_RING_FULL);
	return 0;
}

/* Runs in the parent before the child does. Children of children are noticed too, because the first
 * child of a daemon that forks twice ends before anyone has seen it. */
SEC("raw_tp/sched_process_fork")
int on_fork(struct bpf_raw_tracepoint_args *ctx)
{
	const struct task_struct *task = (const struct task_struct *)ctx->args[1];
	__u32 parent = bpf_get_current_pid_tgid() >> 32;
	__u32 tid = target_tid();
	__u32 child = (__u32)BPF_CORE_READ(task, tgid);
	__u32 one = 1;

	if (child != (__u32)BPF_CORE_READ(task, pid)) /* a thread */
		return 0;
	if (tid == 0 && !bpf_map_lookup_elem(&children, &parent))
		return 0;
	if (bpf_map_update_elem(&children, &child, &one, BPF_ANY) != 0)
		count_drop(MEMPROF_DROP_CHILDREN_FULL);
	return send_fork(tid, child);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
