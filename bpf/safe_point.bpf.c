// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The probe at caml_do_pending_actions_exn, loaded while the agent waits to be injected: sends one
 * signal to the one thread that the daemon has chosen; see safe_point.h.
 *
 * It must load on Linux 5.8, where a BPF program can add to a word but cannot read its previous
 * value (5.12), and cannot loop without a limit (5.17). Two properties must hold without that:
 *
 *   - after close() has returned, no signal is sent, and its result shows whether one was sent;
 *   - an open() sends at most one signal.
 *
 * The second property is simple: the gate is open for one thread, which cannot be here twice at
 * once, and which writes FIRED after it has read OPEN. For the first, a thread announces that it
 * may be about to send, and then checks the gate; the daemon first closes the gate, and then checks
 * for announcements:
 *
 *   thread: fire()                           daemon: close()
 *   a  firing += 1                           1  exchange the gate for CLOSED
 *   b  is the gate open, for me, in time?    2  wait until firing is 0
 *   c  send, the gate = FIRED                3  exchange the gate for CLOSED once more
 *   d  firing -= 1
 *
 * Let r be the last read of 2. If a is before r, so is d: 1 or 3 finds FIRED if the signal was
 * sent. If a is after r, b is after 1 and finds the gate CLOSED, or in a state that the daemon has
 * set since. If it has opened the gate again, it had named the chosen thread before, so any other
 * thread does not send; the name stays, because the next close() waits for d. The code needs a to
 * precede b, so the addition has to be a barrier: on x86 it is one, even if its result is not used.
 *
 * A hit only reports a thread, so two threads may be reported in one turn: the daemon chooses one.
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

/* Shared with the daemon. Only the daemon writes these, except the last two. */
volatile __u32 gate = MEMPROF_GATE_CLOSED; /* but FIRED */
volatile __u32 turn = 0;		   /* incremented each time the gate is watched */
volatile __u32 open_tid = 0;		   /* thread for which it is open, as the host numbers it */
volatile __u64 open_until_ns = 0; /* the daemon extends it: if it is frozen, nothing is sent */
volatile __u32 open_signal = 0;
volatile __u32 skipped[MEMPROF_SKIPPED_THREADS] = {};
volatile __u32 hit_turn = 0; /* the last turn in which a thread reported itself */
volatile __u32 firing = 0;   /* threads that may be about to send */

/* One page: room for 170 threads that report themselves at once. */
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

/* Waits some microseconds for an answer; returns 1 while there still is something to wait for. Not
 * static, so that the kernel verifies it once instead of in each turn of a loop. */
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
	/* If the signal is refused, the gate stays open: the next pass tries again. */
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
