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
 * is a one-byte nop: they are called for each sampled block that is allocated, before the program
 * gets it, and for each such block that is freed, before the C library has it back. Therefore the
 * events of a block are in order, whatever threads they come from. They are the USDT probes of
 * OpenTelemetry's contract for memory profiles, which other tools may use while blocks are
 * followed:
 *
 *     otel_memory:alloc(block, bytes, weight)    registers rdi, rsi, rdx; weight: bytes for which
 *                                                the block stands
 *     otel_memory:free(block)                    rdi
 *
 * Beyond that contract rcx has the address of a struct memprof_c_event in both.
 */
#ifndef MEMPROF_NATIVE_HEAP_ABI_H
#define MEMPROF_NATIVE_HEAP_ABI_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define MEMPROF_NATIVE_HEAP_MAGIC 0x7061656843504d4dULL /* "MMPCheap" read as bytes */
#define MEMPROF_NATIVE_HEAP_ABI 3u

/* Bytes for one sample on average, at least. */
#define MEMPROF_NATIVE_HEAP_MIN_INTERVAL 512u

/* From this size on a block has one sample if it has any, however many hit it. */
#define MEMPROF_NATIVE_HEAP_ONE_SAMPLE 4096u

enum memprof_c_heap_state {
	MEMPROF_NATIVE_HEAP_IDLE = 0,
	MEMPROF_NATIVE_HEAP_FOLLOWING = 1,
	MEMPROF_NATIVE_HEAP_NO_SLOTS =
		2, /* no call of malloc can be seen: linked statically, say */
	MEMPROF_NATIVE_HEAP_UNSUPPORTED = 3, /* not with this C library */
	/* A forked child that may not ask for its files: another thread was in the dynamic linker
	 * then, or that is not known. */
	MEMPROF_NATIVE_HEAP_LINKER_LOCKED = 4,
};

/* Whether system calls are filtered. If one could end the program, slots are not changed. */
enum memprof_c_heap_hands {
	MEMPROF_NATIVE_HEAP_NOT_FILTERED = 0,
	MEMPROF_NATIVE_HEAP_FILTERED = 1, /* for good; nothing is followed */
	/* The program may be about to install a filter. The watcher replaces MAYBE by HARDLY, and
	 * that by 0. */
	MEMPROF_NATIVE_HEAP_MAYBE_FILTERED = 2,
	MEMPROF_NATIVE_HEAP_HARDLY_FILTERED = 3,
};

struct memprof_c_heap {
	__u64 magic;
	__u32 abi_version;
	__u32 bytes; /* sizeof(struct memprof_c_heap) */

	/* Written by the watcher. */
	__u64 requested_interval; /* bytes for one sample on average; 0: do not follow */
	__u32 requested_generation;
	__u32 hands_off; /* enum memprof_c_heap_hands; the agent writes it, too */
	/* Address at which the runtime records that OCaml code has called C: in OCaml 4 that of
	 * bottom_of_stack, which last_return_address follows; in OCaml 5 that of c_stack in a
	 * domain state. 0: unknown. */
	__u64 note_place;

	/* Written by the agent. */
	__u64 interval;	  /* of the running or last session */
	__u32 generation; /* requested_generation that state answers */
	__u32 state;	  /* enum memprof_c_heap_state */
	__u32 slots;	  /* that hold the agent's functions */
	__u32 slots_left; /* that hold another function than that of the C library: left alone */
	__u64 starts;	  /* over the process's life */
	__u64 stops;
	__u64 samples;
	__u64 frees;
	__u64 not_followed; /* samples that were given up: too many blocks live */
};

struct memprof_c_event {
	__u64 id;    /* of the block, ascending over the life of the process; not 0 */
	__u64 bytes; /* that were asked for; 0: the block is freed */
	__u32 n_samples;
	__u32 generation;
	__u64 thread_pointer;
	__u64 domain_state; /* of this thread in OCaml 5, if it holds the runtime lock; else 0 */
	/* The runtime's record when this thread released the lock: bottom_of_stack and
	 * last_return_address in OCaml 4, c_stack and 0 in OCaml 5. Zero while it holds the
	 * lock. */
	__u64 note[2];
};

#endif
