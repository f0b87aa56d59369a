// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The probe at caml_do_pending_actions_exn, loaded while the agent waits to be put in: sends
 * one signal to the one thread that the daemon has chosen; see safe_point.h.
 *
 * It loads on Linux 5.8, where a BPF program can add to a word, but cannot learn what was there
 * before (5.12), and cannot loop for as long as it likes (5.17). Two things must hold without that:
 *
 *   - when close() has returned, no signal is sent any more, and it tells whether one was;
 *   - an open() sends one signal at most.
 *
 * The second is easy: the gate is open for one thread, which cannot be here twice at once, and
 * which writes FIRED where it has read OPEN. For the first, a thread says beforehand that it may be
 * about to send, and looks again afterwards; the daemon closes first, and looks afterwards:
 *
 *   thread: fire()                           daemon: close()
 *   a  firing += 1                           1  exchange the gate for CLOSED
 *   b  is the gate open, for me, in time?    2  wait until firing is 0
 *   c  send, the gate = FIRED                3  exchange the gate for CLOSED once more
 *   d  firing -= 1
 *
 * Either a is before what 2 has read last, and then d is, too: 1 or 3 finds FIRED if it was sent.
 * Or a is after it, so that b, after 1, finds the gate CLOSED, or as the daemon has set it since.
 * Was it opened again meanwhile, then for a thread that has been named before the gate says OPEN,
 * and who is not that one goes on; the name stays, since the next close() waits for d.
 * For a to be before b, an addition has to be a barrier: it is on x86, also one without a result.
 *
 * A hit only reports a thread, so two threads may be reported in one turn: the daemon takes one.
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

/* Shared with the daemon, which alone writes all but the last two. */
volatile __u32 gate = MEMPROF_GATE_CLOSED; /* but FIRED */
volatile __u32 turn = 0;		   /* raised each time it is watched */
volatile __u32 open_tid = 0;		   /* who the gate is open for, as the host numbers it */
volatile __u64 open_until_ns = 0; /* the daemon keeps moving it on: a frozen one sends nothing */
volatile __u32 open_signal = 0;
volatile __u32 skipped[MEMPROF_SKIPPED_THREADS] = {};
volatile __u32 hit_turn = 0; /* the last one in which a thread reported itself */
volatile __u32 firing = 0;   /* threads that may be about to send */

/* One page, for 170 threads that report themselves at once. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} hits SEC(".maps");

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

/*
 * Waits for an answer, some microseconds at most; whether there is something to wait for still.
 * Not static: the kernel looks at each turn of a loop, but once at a function like this one,
 * however often it is called.
 */
__noinline int wait_a_little(__u32 own_turn, __u64 until)
{
	__u32 i;

	for (i = 0; i < 256; i++)
		if (gate != MEMPROF_GATE_WATCHED || turn != own_turn || bpf_ktime_get_ns() >= until)
			return 0;
	return 1;
}

static __always_inline void hit(__u32 own_turn, __u32 tid, __u32 own_tid)
{
	struct memprof_safe_point_hit event = {
		.time_ns = bpf_ktime_get_ns(),
		.tid = tid,
		.own_tid = own_tid,
	};
	__u64 until = event.time_ns + MEMPROF_HIT_WAIT_NS;
	__u32 i;

	hit_turn = own_turn;
	if (bpf_ringbuf_output(&hits, &event, sizeof(event), BPF_RB_FORCE_WAKEUP) != 0)
		return;
	for (i = 0; i < 256; i++)
		if (!wait_a_little(own_turn, until))
			return;
}

static __always_inline void fire(__u32 tid)
{
	__sync_fetch_and_add(&firing, 1);
	/* Refused, it stays open: the next pass tries again. */
	if (gate == MEMPROF_GATE_OPEN && open_tid == tid && bpf_ktime_get_ns() < open_until_ns &&
	    bpf_send_signal_thread(open_signal) == 0)
		gate = MEMPROF_GATE_FIRED;
	__sync_fetch_and_add(&firing, -1);
}

SEC("uprobe")
int safe_point(struct pt_regs *ctx)
{
	__u32 own_turn = turn;
	__u32 own_tid, tid;
	bool asked = gate == MEMPROF_GATE_WATCHED && hit_turn != own_turn;

	if (!asked && gate != MEMPROF_GATE_OPEN)
		return 0;
	own_tid = own_tid_of_target();
	tid = (__u32)bpf_get_current_pid_tgid();
	if (own_tid == 0)
		return 0;
	if (asked && !is_skipped(tid))
		hit(own_turn, tid, own_tid);
	if (gate == MEMPROF_GATE_OPEN && open_tid == tid)
		fire(tid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
