// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The probe at caml_do_pending_actions_exn, loaded while the agent waits to be put in: sends
 * one signal to the one thread that the daemon has chosen; see safe_point.h.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "safe_point.h"

/* Set before load. */
const volatile __u32 target_tgid = 0; /* in the target's own pid namespace */
const volatile __u64 pid_namespace_device = 0;
const volatile __u64 pid_namespace_inode = 0;

/* Shared with the daemon. */
volatile __u32 gate = MEMPROF_GATE_CLOSED;
volatile __u32 open_tid = 0;	  /* who the gate is open for, as the host numbers it */
volatile __u64 open_until_ns = 0; /* the daemon keeps moving it on: a frozen one sends nothing */
volatile __u32 open_signal = 0;
volatile __u32 skipped[MEMPROF_SKIPPED_THREADS] = {};

/* A page: a knock is answered or forgotten before the next. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} knocks SEC(".maps");

static __always_inline __u32 own_tid_of_target(void)
{
	struct bpf_pidns_info ids = {};

	if (bpf_get_ns_current_pid_tgid(pid_namespace_device, pid_namespace_inode, &ids,
					sizeof(ids)) != 0)
		return 0;
	return ids.tgid == target_tgid ? ids.pid : 0;
}

static __always_inline bool is_skipped(__u32 tid)
{
	__u32 i;

	for (i = 0; i < MEMPROF_SKIPPED_THREADS; i++)
		if (skipped[i] == tid)
			return true;
	return false;
}

static long wait_step(__u32 index, __u64 *until)
{
	return gate != MEMPROF_GATE_KNOCKED || bpf_ktime_get_ns() >= *until;
}

static __always_inline void knock(__u32 tid, __u32 own_tid)
{
	struct memprof_knock event = {
		.time_ns = bpf_ktime_get_ns(),
		.tid = tid,
		.own_tid = own_tid,
	};
	__u64 until = event.time_ns + MEMPROF_KNOCK_WAIT_NS;

	if (bpf_ringbuf_output(&knocks, &event, sizeof(event), BPF_RB_FORCE_WAKEUP) == 0)
		bpf_loop(1 << 20, wait_step, &until, 0);
}

static __always_inline void fire(__u32 tid)
{
	if (open_tid != tid || bpf_ktime_get_ns() >= open_until_ns)
		return;
	if (__sync_val_compare_and_swap(&gate, MEMPROF_GATE_OPEN, MEMPROF_GATE_FIRING) !=
	    MEMPROF_GATE_OPEN)
		return;
	/* Refused, it stays open: the next pass tries again. */
	gate = bpf_send_signal_thread(open_signal) == 0 ? MEMPROF_GATE_FIRED : MEMPROF_GATE_OPEN;
}

SEC("uprobe")
int safe_point(struct pt_regs *ctx)
{
	__u32 own_tid, tid;

	if (gate != MEMPROF_GATE_WATCHED && gate != MEMPROF_GATE_OPEN)
		return 0;
	own_tid = own_tid_of_target();
	tid = (__u32)bpf_get_current_pid_tgid();
	if (own_tid == 0)
		return 0;
	if (gate == MEMPROF_GATE_WATCHED && !is_skipped(tid) &&
	    __sync_val_compare_and_swap(&gate, MEMPROF_GATE_WATCHED, MEMPROF_GATE_KNOCKED) ==
		    MEMPROF_GATE_WATCHED)
		knock(tid, own_tid);
	if (gate == MEMPROF_GATE_OPEN)
		fire(tid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
