/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The maps of the walk. Sizes marked "before load" are set by the daemon
 * (daemon/attach/kernel/kernel_object.cc).
 */
#ifndef MEMPROF_MAPS_BPF_H
#define MEMPROF_MAPS_BPF_H

#include "events.h"
#include "frametable_walk.bpf.h"

/* Open-addressing frame table (events.h); filled through mmap. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2); /* before load: 1 << table_bits */
	__type(key, __u32);
	__type(value, __u64);
} frame_table SEC(".maps");

/* Each entry is a struct memprof_scratch. Not per CPU, because a program may be preempted in the
 * middle of a walk. All targets share one map in place of this one
 * (daemon/attach/kernel/scratch_map.h). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MEMPROF_SCRATCH_TRIES);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct memprof_scratch));
} scratch SEC(".maps");

/* Direct-mapped by the low bits of a stack id. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* before load: seen_stacks */
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

#endif
