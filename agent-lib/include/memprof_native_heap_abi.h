/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How the agent reports memory that C code allocates, and how the watcher requests that.
 *
 * The symbol memprof_c_heap is one struct memprof_c_heap in the agent's writable data; the watcher
 * reads it from outside and writes the requested_* fields, requested_generation last. The agent
 * follows the native heap while it may also sample the OCaml heap (memprof_agent_abi.h): while
 * memprof:batch is watched and its lease runs. It starts, stops and searches for new libraries at
 * the end of a minor collection.
 *
 * The symbols memprof_c_alloc_probe and memprof_c_free_probe are functions whose first instruction
 * is a one-byte nop. They are called for each sampled block: after it is allocated, before the
 * program gets it, and when it is freed, before the C library gets it back. So the events of a
 * block are in order, whichever threads cause them. They are the USDT probes of OpenTelemetry's
 * contract for memory profiles, which other tools may use while blocks are followed:
 *
 *     otel_memory:alloc(block, bytes, weight)    registers rdi, rsi, rdx; weight: bytes for which
 *                                                the block stands
 *     otel_memory:free(block)                    rdi
 *
 * In addition to that contract, rcx has the address of a struct memprof_c_event in both.
 */
#ifndef MEMPROF_NATIVE_HEAP_ABI_H
#define MEMPROF_NATIVE_HEAP_ABI_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define MEMPROF_NATIVE_HEAP_MAGIC 0x7061656843504d4dULL /* "MMPCheap" read as bytes */
#define MEMPROF_NATIVE_HEAP_ABI 3u

/* Minimum of the average number of bytes per sample. */
#define MEMPROF_NATIVE_HEAP_MIN_INTERVAL 512u

/* A block of at least this size has at most one sample, however many hit it. */
#define MEMPROF_NATIVE_HEAP_ONE_SAMPLE 4096u

enum memprof_c_heap_state {
	MEMPROF_NATIVE_HEAP_IDLE = 0,
	MEMPROF_NATIVE_HEAP_FOLLOWING = 1,
	MEMPROF_NATIVE_HEAP_NO_SLOTS =
		2, /* no call of malloc is visible, for example in a static program */
	MEMPROF_NATIVE_HEAP_UNSUPPORTED = 3, /* not with this C library */
	/* In a forked child that may not inspect its files: at the fork, another thread was in the
	 * dynamic linker, or this is unknown. */
	MEMPROF_NATIVE_HEAP_LINKER_LOCKED = 4,
};

/* Whether system calls may be filtered. If a filter could end the program, slots are not
 * changed. */
enum memprof_native_heap_filter {
	MEMPROF_NATIVE_HEAP_NOT_FILTERED = 0,
	MEMPROF_NATIVE_HEAP_FILTERED = 1, /* permanent; nothing is followed */
	/* The program may be about to install a filter. The watcher replaces MAYBE by UNLIKELY, and
	 * UNLIKELY by 0. */
	MEMPROF_NATIVE_HEAP_MAYBE_FILTERED = 2,
	MEMPROF_NATIVE_HEAP_UNLIKELY_FILTERED = 3,
};

struct memprof_c_heap {
	__u64 magic;
	__u32 abi_version;
	__u32 bytes; /* sizeof(struct memprof_c_heap) */

	/* Written by the watcher. */
	__u64 requested_interval; /* average bytes per sample; 0: do not follow */
	__u32 requested_generation;
	__u32 syscall_filter; /* enum memprof_native_heap_filter; also written by the agent */
	/* Address at which the runtime notes a call from OCaml code to C: in OCaml 4 that of
	 * bottom_of_stack, which last_return_address follows; in OCaml 5 that of c_stack in a
	 * domain state. 0: unknown. */
	__u64 note_place;

	/* Written by the agent. */
	__u64 interval;	  /* of the running or last session */
	__u32 generation; /* requested_generation that state refers to */
	__u32 state;	  /* enum memprof_c_heap_state */
	__u32 slots;	  /* slots that hold the agent's functions */
	__u32 slots_left; /* slots left alone: they hold another function than the C library's */
	__u64 starts;	  /* since the process began */
	__u64 stops;
	__u64 samples;
	__u64 frees;
	__u64 not_followed; /* samples dropped because too many sampled blocks live */
};

struct memprof_c_event {
	__u64 id;    /* of the block; ascending since the process began; not 0 */
	__u64 bytes; /* requested size; 0: the block is freed */
	__u32 n_samples;
	__u32 generation;
	__u64 thread_pointer;
	__u64 domain_state; /* OCaml 5: this thread's, if it holds the runtime lock; else 0 */
	/* The runtime's note when this thread released the lock: bottom_of_stack and
	 * last_return_address in OCaml 4, c_stack and 0 in OCaml 5. Zero while it holds the
	 * lock. */
	__u64 note[2];
};

#endif
