/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The contract of heap snapshots between the agent and its watcher: the symbol
 * memprof_snapshot, one struct memprof_snapshot, and memprof_agent_snapshot(), which the
 * watcher has a thread call that stands at the safe point and that it traces.
 *
 *     watcher                 program                     its copy
 *     layout, request = N
 *     calls the function ---> clone ------------------->  stopped before its first instruction
 *                             child, answered = N
 *                             goes on
 *     lets the copy run ------------------------------->  gives up descriptors, finds roots, int3
 *     reads roots and heap from the copy's memory, kills it
 *                             next minor collection: reaps it
 *
 * The copy is the program's memory at that instant, and its sole thread only ever runs the
 * agent's code. Its own struct memprof_snapshot, in its memory, tells what it has found. Left alone
 * at any point, it ends: by the int3, which nobody takes then.
 */
#ifndef MEMPROF_SNAPSHOT_ABI_H
#define MEMPROF_SNAPSHOT_ABI_H

#include <linux/types.h>

#define MEMPROF_SNAPSHOT_MAGIC 0x70616e734d50524dULL /* "MRPMsnap" read as bytes */
#define MEMPROF_SNAPSHOT_ABI 1u

/* Who holds a value from outside of the heap, by the scanner that found it. */
enum memprof_root_kind {
	MEMPROF_ROOT_MODULE = 0,   /* a field of a module, linked or loaded */
	MEMPROF_ROOT_STACK = 1,	   /* a frame of the thread that was borrowed */
	MEMPROF_ROOT_LOCAL = 2,	   /* a local root of C code of that thread (CAMLparam) */
	MEMPROF_ROOT_C_GLOBAL = 3, /* registered by C code */
	MEMPROF_ROOT_FINALISER = 4,
	MEMPROF_ROOT_MEMPROF = 5,
	MEMPROF_ROOT_THREAD = 6, /* of other threads, and of what else has set the runtime's hook */
	MEMPROF_ROOT_KINDS = 7,
};

struct memprof_root {
	__u64 slot; /* where the value is held */
	__u64 value;
};

enum memprof_copy_state {
	MEMPROF_COPY_BEGUN = 0,
	MEMPROF_COPY_ROOTS_FOUND = 1,
	MEMPROF_COPY_NO_ROOM = 2, /* no memory for the roots, or more than MEMPROF_MAX_ROOTS */
	MEMPROF_COPY_HAS_DESCRIPTORS = 3, /* it could not give them up */
};

#define MEMPROF_MAX_ROOTS (1u << 22)

/* Bytes into the state of an OCaml 4 runtime. */
struct memprof_state_layout {
	__u32 bottom_of_stack;
	__u32 last_return_address;
	__u32 gc_regs;
	__u32 local_roots;
};

struct memprof_snapshot {
	__u64 magic;
	__u32 abi_version;
	__u32 bytes; /* sizeof(struct memprof_snapshot) */

	/* Written by the watcher, the request last. */
	struct memprof_state_layout layout;
	__u64 request; /* not 0, and another one each time */

	/* Written by the agent. */
	__u64 answered; /* the request that child answers */
	__s64 child;	/* as the program numbers it; negative: an error number, there is none */
	__u64 clone_ns; /* how long the program stood still for it */

	/* Written by the copy, in its own memory. */
	__u32 copy_state; /* enum memprof_copy_state */
	__u32 reserved;
	__u64 roots; /* address of struct memprof_root, by kind */
	__u64 kind_roots[MEMPROF_ROOT_KINDS];
};

#endif
