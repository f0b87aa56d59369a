// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The probes at functions of a program for `memprofctl trace-calls`. They send nothing: the daemon
 * reads the counts, which are in memory that it has mapped.
 *
 * Hits count from arming until counting ends. The daemon arms the probes when the last one is in
 * place, so that all functions are counted from the same moment on.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "calls.h"
#include "hit_budget.bpf.h"

/* Set before load. */
const volatile __u32 target_tgid = 0; /* in the target's own pid namespace */
const volatile __u64 pid_namespace_device = 0;
const volatile __u64 pid_namespace_inode = 0;
const volatile bool fiber_stacks = false;      /* OCaml 5 */
const volatile __u32 current_stack_offset = 0; /* OCaml 5: bytes into the domain's state */
const volatile __u32 fiber_end_offset = 0;     /* OCaml 5: bytes into its stack_info: */
const volatile __u32 fiber_id_offset = 0;      /* the stack's fixed end, the fiber's number */
/* As are the next ones; with_words: true if they are known. */
const volatile bool with_words = false;
const volatile __u32 stat_words_offset = 0; /* minor, promoted, major; doubles in OCaml 4 */
const volatile __u32 young_end_offset = 0;
/* Words of the major heap that these counters do not contain yet; in the domain state of OCaml
 * 5. */
const volatile __u32 allocated_words_offset = 0;
const volatile __u64 allocated_words_address = 0; /* OCaml 4 */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MEMPROF_CALL_FUNCTIONS);
	__type(key, __u32);
	__type(value, struct memprof_call_counts);
} counts SEC(".maps");

static __always_inline bool is_target(void)
{
	struct bpf_pidns_info ids = {};

	return bpf_get_ns_current_pid_tgid(pid_namespace_device, pid_namespace_inode, &ids,
					   sizeof(ids)) == 0 &&
	       ids.tgid == target_tgid;
}

/* Returns true if this hit counts. */
static __always_inline bool take_hit(__u64 now)
{
	if (!budget.armed || budget.off != MEMPROF_CALLS_ON || !is_target() || !pay_hits(now, 1))
		return false;
	__sync_fetch_and_add(&budget.hits, 1);
	return true;
}

SEC("uprobe")
int count_call(struct pt_regs *ctx)
{
	__u32 function = MEMPROF_CALL_FUNCTION(bpf_get_attach_cookie(ctx));
	struct memprof_call_counts *own;

	if (!take_hit(bpf_ktime_get_ns()))
		return 0;
	own = bpf_map_lookup_elem(&counts, &function);
	if (own)
		__sync_fetch_and_add(&own->calls, 1);
	return 0;
}

/* Runs before the new program, which may be the same file: its calls are not the target's. */
SEC("raw_tp/sched_process_exec")
int calls_exec(struct bpf_raw_tracepoint_args *ctx)
{
	if (budget.armed && is_target())
		switch_hits_off(MEMPROF_CALLS_EXEC, bpf_ktime_get_ns());
	return 0;
}

#include "call_times.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
