/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The fields of the kernel's own structures that we use. The loader finds their offsets in the
 * running kernel by its type information (BTF).
 */
#ifndef MEMPROF_KERNEL_TYPES_BPF_H
#define MEMPROF_KERNEL_TYPES_BPF_H

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_struct {
	unsigned long fsbase;
};

struct signal_struct {
	unsigned int flags;
	int group_exit_code;
	struct mm_struct *oom_mm;
};

struct task_struct {
	int pid;
	int tgid;
	int exit_code;
	struct signal_struct *signal;
	struct thread_struct thread;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#endif
