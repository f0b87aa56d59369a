/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Configuration and maps of one target. The read-only globals and the sizes
 * marked "before load" are set by the daemon (daemon/attach/kernel_side.cc).
 */
#ifndef MEMPROF_MAPS_BPF_H
#define MEMPROF_MAPS_BPF_H

#include "events.h"
#include "frametable_walk.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* before load */
} events SEC(".maps");

/* Open-addressing frame table (events.h); filled through mmap. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2); /* before load: 1 << table_bits */
	__type(key, __u32);
	__type(value, __u64);
} frame_table SEC(".maps");

/* Not per CPU: a program may be preempted in the middle of a walk. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MEMPROF_SCRATCH_SLOTS);
	__type(key, __u32);
	__type(value, struct memprof_scratch);
} scratch SEC(".maps");

/* Direct mapped by the low bits of a stack id. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MEMPROF_SEEN_STACKS);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

/* Processes that the target forked, and their children, by pid; see on_fork(). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
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
