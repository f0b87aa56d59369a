/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Iterator over the tasks of a process that writes each one's thread pointer, 8 bytes, which leads
 * to its thread-local variables. The process is not touched or stopped. The daemon selects it when
 * it attaches the iterator.
 */
#ifndef MEMPROF_THREAD_POINTERS_BPF_H
#define MEMPROF_THREAD_POINTERS_BPF_H

#include <bpf/bpf_helpers.h>

#include "kernel_types.bpf.h"

SEC("iter/task")
int thread_pointers(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u64 pointer;

	if (!task)
		return 0;
	pointer = task->thread.fsbase;
	bpf_seq_write(ctx->meta->seq, &pointer, sizeof(pointer));
	return 0;
}

#endif
