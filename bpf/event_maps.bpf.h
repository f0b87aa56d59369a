/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps that the objects of a target share. The daemon creates them with memprof.bpf.c and makes
 * the other objects use them. */
#ifndef MEMPROF_EVENT_MAPS_BPF_H
#define MEMPROF_EVENT_MAPS_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include "events.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* before load */
} events SEC(".maps");

/* Processes that the target forked, and their children, by pid; see on_fork(). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMPROF_MAX_CHILDREN);
	__type(key, __u32);
	__type(value, __u32);
} children SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MEMPROF_KERNEL_DROPS);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MEMPROF_KERNEL_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

#endif
