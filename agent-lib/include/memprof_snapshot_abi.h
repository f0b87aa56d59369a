/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The contract of heap snapshots between the agent and its watcher: the symbol memprof_snapshot,
 * one struct memprof_snapshot, and memprof_agent_snapshot(). The watcher traces a thread and makes
 * it call this function at the safe point. If the runtime is free and a thread waits in a system
 * call, it makes that thread call memprof_agent_snapshot_waiting() instead, which older agents
 * lack.
 *
 *     watcher                 program                     its copy
 *     layout, request = N
 *     calls the function ---> clone ------------------->  stopped before its first instruction
 *                             child, answered = N
 *                             continues
 *     lets the copy run ------------------------------->  gives up descriptors, finds roots, int3
 *     reads roots and heap from the copy's memory, kills it
 *                             next minor collection: reaps it
 *
 * The copy is the program's memory at that instant, and its only thread runs only the agent's code.
 * It writes its results to its own struct memprof_snapshot, in its own memory. If the watcher
 * disappears at any point, the copy ends by the int3, which no one handles then.
 */
#ifndef MEMPROF_SNAPSHOT_ABI_H
#define MEMPROF_SNAPSHOT_ABI_H

#include "memprof_agent_abi.h"

#define MEMPROF_SNAPSHOT_MAGIC 0x70616e734d50524dULL /* "MRPMsnap" read as bytes */
#define MEMPROF_SNAPSHOT_ABI 3u

/* Kind of a root, determined by the scanner that found it. */
enum memprof_root_kind {
	MEMPROF_ROOT_MODULE = 0,   /* a field of a module, linked or loaded */
	MEMPROF_ROOT_STACK = 1,	   /* a frame of the thread that runs in the domain */
	MEMPROF_ROOT_LOCAL = 2,	   /* a local root of C code of that thread (CAMLparam) */
	MEMPROF_ROOT_C_GLOBAL = 3, /* registered by C code */
	MEMPROF_ROOT_FINALISER = 4,
	MEMPROF_ROOT_MEMPROF = 5,
	MEMPROF_ROOT_THREAD = 6, /* of other threads, and of other users of the runtime's hook */
	MEMPROF_ROOT_KINDS = 7,
};

struct memprof_root {
	__u64 slot; /* address of the word that holds the value */
	__u64 value;
};

/* A run of roots of one kind; it begins where the previous section ended. */
struct memprof_root_section {
	__u32 kind;   /* enum memprof_root_kind */
	__u32 domain; /* OCaml 5: index of the domain in `domains`; 0 for sections of no domain */
	__u64 roots;
};

enum memprof_copy_state {
	MEMPROF_COPY_BEGUN = 0,
	MEMPROF_COPY_ROOTS_FOUND = 1,
	MEMPROF_COPY_NO_ROOM = 2, /* no memory for the roots, or more than MEMPROF_MAX_ROOTS */
	MEMPROF_COPY_HAS_DESCRIPTORS = 3, /* it could not close its descriptors */
};

#define MEMPROF_MAX_ROOTS (1u << 22)
/* Two sections that belong to no domain, and five for each domain. */
#define MEMPROF_MAX_ROOT_SECTIONS (2u + 5u * MEMPROF_DOMAINS)

/* Offsets in the state of an OCaml 4 runtime, or of a domain; bytes. */
struct memprof_state_layout {
	__u32 stack;		   /* bottom_of_stack, or current_stack of OCaml 5 */
	__u32 last_return_address; /* OCaml 4 */
	__u32 gc_regs;
	__u32 local_roots;
};

/* Points at which the program waits for a snapshot of itself; bits of points_wanted. */
enum memprof_point_kind {
	MEMPROF_POINT_OF_PROGRAM = 1, /* Memprof_agent.snapshot */
	MEMPROF_POINT_EXIT = 2,
};

#define MEMPROF_POINT_NAME_BYTES 64

/* Points: until points_until_ns (CLOCK_MONOTONIC), a thread that reaches a wanted point writes its
 * number and waits at memprof_agent_at_point() until the watcher has answered. */
struct memprof_snapshot {
	__u64 magic;
	__u32 abi_version;
	__u32 bytes; /* sizeof(struct memprof_snapshot) */

	/* Written by the watcher, the request last. */
	struct memprof_state_layout layout;
	__u64 patience_ns; /* counted from the call; later, no copy is made */
	__u64 request;	   /* not 0; different each time */

	/* Written by the agent. */
	__u64 answered; /* the request that child answers */
	__s64 child; /* pid in the program's namespace; if negative, an error number, and there is
			no copy; ETIME: the domains of OCaml 5 did not stop together */
	__u64 clone_ns; /* duration of the program's pause */

	/* Written by the copy, in its own memory. */
	__u32 copy_state; /* enum memprof_copy_state */
	__u32 section_count;
	__u64 sections; /* address of struct memprof_root_section */
	__u64 roots;	/* address of struct memprof_root */
	__u64 domains;	/* OCaml 5: address of the addresses of the domain states */
	__u64 domain_count;

	/* Points. Written by the watcher. */
	__u64 points_until_ns;
	__u64 point_answered; /* number of the last point that need not wait any more */
	__u32 points_wanted;  /* bits of enum memprof_point_kind */
	__u32 point_taken;    /* 1: a snapshot of it was taken */
	/* Written by the agent, the number last. */
	__u64 point; /* number of the point at which a thread waits; 0: none */
	__u32 point_kind;
	/* Written by the watcher: 1 if it reads the copy without CAP_SYS_PTRACE, as the same user.
	 * Other processes of that user can then read the copy too, as they can read the program. */
	__u32 copy_is_readable;
	char point_name[MEMPROF_POINT_NAME_BYTES]; /* ends in a 0 */
};

/*
 * The symbol memprof_sample_point, which older agents lack: points for a watcher that can place no
 * probe. A thread that handles the sample of an allocation waits in memprof_agent_hold() with the
 * runtime lock, until the watcher stops it there by ptrace or takes the number back, for
 * MEMPROF_HOLD_NS at most. For each number one thread waits, so a watcher that dies costs one wait.
 *
 *     watcher                    program
 *     wanted = N
 *                                a sample: tid; runs in memprof_agent_hold()
 *     seizes and stops tid,
 *     wanted = 0,
 *     has it call memprof_agent_snapshot(), releases it
 *                                tid = 0, continues
 */
struct memprof_sample_point {
	__u32 wanted; /* written by the watcher; 0: no thread is to wait */
	__u32 tid;    /* written by the agent, in the program's namespace; 0: no thread waits */
};

#define MEMPROF_HOLD_NS 100000000u

/* memprof_agent_hold() is no longer than this. */
#define MEMPROF_HOLD_BYTES 16u

#endif
