/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where the threads of a process have their thread-local variables: an iterator over
 * tasks that writes each one's thread pointer, 8 bytes. Nothing of the process is
 * touched or stopped. Which process, the daemon says when it attaches the iterator.
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
