/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Detects how the target ends. The first thread that reaches the end of the whole program already
 * has its status, as wait() will report it to the parent:
 *
 *   exit(2), a signal ---> signal_struct: SIGNAL_GROUP_EXIT, group_exit_code ---> each thread: here
 *   oom/mark_victim   ---> signal_struct: oom_mm, then SIGKILL -----------------'
 *
 * The mark that the OOM killer leaves in its victim is used instead of its tracepoint. The
 * tracepoint runs in the process that requested memory, identifies the victim without its pid
 * namespace, and has different arguments in different kernels. Included by tasks.bpf.c.
 */
#ifndef MEMPROF_PROGRAM_END_BPF_H
#define MEMPROF_PROGRAM_END_BPF_H

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "events.h"
#include "kernel_types.bpf.h"
#include "target.bpf.h"

#define SIGNAL_GROUP_EXIT 4u /* include/linux/sched/signal.h */

/* MEMPROF_END_KNOWN and other flags; 0: the program has not ended. A single word, so that it is
 * written at once. */
__u64 program_end = 0;

SEC("raw_tp/sched_process_exit")
int on_program_end(struct bpf_raw_tracepoint_args *ctx)
{
	const struct task_struct *task = (const struct task_struct *)ctx->args[0];
	const struct signal_struct *signal;
	__u32 tid = target_tid();
	__u64 end = MEMPROF_END_KNOWN;

	if (tid == 0)
		return 0;
	signal = BPF_CORE_READ(task, signal);
	if (BPF_CORE_READ(signal, flags) & SIGNAL_GROUP_EXIT)
		end |= BPF_CORE_READ(signal, group_exit_code) & MEMPROF_END_STATUS;
	else if (tid == target_tgid)
		end |= BPF_CORE_READ(task, exit_code) & MEMPROF_END_STATUS;
	else
		return 0;
	if (BPF_CORE_READ(signal, oom_mm))
		end |= MEMPROF_END_OUT_OF_MEMORY;
	program_end = end;
	return 0;
}

#endif
