/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The contract between the in-process agent and its watcher.
 *
 * Two objects carry it, both found through the agent's ELF file:
 *
 *  - the USDT probe memprof:batch, hit when a batch of records is complete.
 *    Its arguments stay in fixed registers (see at the end), so that a
 *    plain uprobe at the probe's address reads them without parsing the note.
 *    Its semaphore is the on/off switch: sampling runs only while it is raised.
 *
 *  - the symbol memprof_agent_control, one struct memprof_agent_control in the
 *    agent's writable data, which leads to the rest. The watcher reads it from outside
 *    and writes only the requested_* fields, requested_generation last, before them,
 *    once, the offsets of an OCaml 5 runtime, and before everything its token.
 *
 * Life. Sampling needs both a raised semaphore and a lease that has not run out. The kernel lowers
 * the semaphore when the watcher dies. Some kernels fail to do so if it is killed while it
 * detaches; then the lease ends sampling.
 *
 * Batch protocol. Records of a buffer are numbered from 0 without gaps over the life of the
 * process. records[0 .. count) hold the numbers first_seq .. first_seq + count. The agent writes a
 * record (and words), then count; a flush hits the probe, zeroes count, then adds to first_seq. The
 * buffer contains the format of a batch, before its first record. A watcher that reads first_seq,
 * count and the records, then first_seq again and finds it unchanged, has a valid copy of the
 * unflushed tail; the same records arrive once more with the next batch and are recognised by their
 * numbers. A hole in the numbers is a lost batch.
 *
 *     first_seq = 512  count = 2                       flush
 *     records   [#512 alloc id 40][#513 promote id 12] ------> probe(ptr, 2, 512, gen)
 *     first_seq = 512  count = 0
 *     first_seq = 514  count = 0
 */
#ifndef MEMPROF_AGENT_ABI_H
#define MEMPROF_AGENT_ABI_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define MEMPROF_AGENT_MAGIC 0x746e67614d50524dULL /* "MRPMagnt" read as bytes */
#define MEMPROF_AGENT_ABI 6u

/* Maximum number of records in a batch. */
#define MEMPROF_BATCH_RECORDS 512u

/* Runtime capture: maximum size of a batch in memory, 64 KiB with its head, and of a callstack (up
 * to this length, OCaml 4 keeps callstacks in the minor heap). */
#define MEMPROF_PACKED_WORDS 16376u
#define MEMPROF_PACKED_RECORDS (MEMPROF_PACKED_WORDS / 2) /* a record has at least two words */
#define MEMPROF_PACKED_FRAMES 256u
/* Maximum number of frames that the agent captures; a deeper callstack is truncated to
 * MEMPROF_PACKED_FRAMES. */
#define MEMPROF_PACKED_MOST_FRAMES 5120u

/* Maximum number of domains that OCaml 5 runs at once. */
#define MEMPROF_DOMAINS 4096u
/* Batch buffers, by the domain's index; domains of the last index and beyond share the last one.
 * OCaml 4 uses only the first. */
#define MEMPROF_BUFFERS 128u
#define MEMPROF_SHARED_BUFFER (MEMPROF_BUFFERS - 1)

/* OCaml 5: number of sessions whose blocks are followed, the running one included: those whose
 * generation is less than this below the running one's. */
#define MEMPROF_FOLLOWED_SESSIONS 16u

/* Pause histogram: bucket i counts pauses below 1024 << i ns; the last one also counts all longer
 * ones. */
#define MEMPROF_PAUSE_BUCKETS 24u

enum memprof_record_kind {
	MEMPROF_ALLOC_MINOR = 1,
	MEMPROF_ALLOC_MAJOR = 2,
	MEMPROF_PROMOTE = 3,
	MEMPROF_DEALLOC_MINOR = 4,
	MEMPROF_DEALLOC_MAJOR = 5,
};

/* Gc.Memprof.allocation_source, in the runtime's numbering. */
enum memprof_source {
	MEMPROF_SOURCE_NORMAL = 0,
	MEMPROF_SOURCE_MARSHAL = 1,
	MEMPROF_SOURCE_CUSTOM = 2,
};

struct memprof_record {
	__u64 time_ns;	  /* CLOCK_MONOTONIC at the start of the callback */
	__u64 sample_id;  /* not 0; unique over the life of the process */
	__u64 size_words; /* allocations: block size without header; else 0 */
	__u32 n_samples;  /* allocations: samples in the block, saturating; else 0 */
	__u32 origin;	  /* tid << 8 | source << 4 | kind, see the macros below */
};

/* The component that records callstacks. */
enum memprof_capture_by {
	MEMPROF_CAPTURE_BY_KERNEL = 0,	/* a probe where the runtime samples; plain batches */
	MEMPROF_CAPTURE_BY_RUNTIME = 1, /* Gc.Memprof; packed batches */
	MEMPROF_CAPTURE_BY_AGENT = 2,	/* its own walk of the stack; packed batches */
};

/* Reason why the agent does not walk stacks although agent capture was requested. */
enum memprof_walk_state {
	MEMPROF_WALK_OK = 0,
	/* The runtime captures the session, because the agent's walk does not support this
	 * program's runtime, or the allocator has been replaced. */
	MEMPROF_WALK_UNKNOWN_RUNTIME = 1,
	MEMPROF_WALK_ALLOCATOR = 2, /* also detected during a session */
	/* The session continues with innermost frames, in OCaml 5 with the runtime's callstacks.
	 * Reasons: the walk did not find the runtime's innermost frame; the walked memory was no
	 * stack; the program allocates so many blocks of one word from C that each would cost more
	 * than runtime capture. */
	MEMPROF_WALK_DIFFERED = 3,
	MEMPROF_WALK_BROKEN_STACK = 4,
	MEMPROF_WALK_CROWDED = 5,
};

#define MEMPROF_ORIGIN(tid, source, kind) ((__u32)(tid) << 8 | (__u32)(source) << 4 | (__u32)(kind))
#define MEMPROF_ORIGIN_TID(origin) ((origin) >> 8)
#define MEMPROF_ORIGIN_SOURCE(origin) (((origin) >> 4) & 15u)
#define MEMPROF_ORIGIN_KIND(origin) ((origin)&15u)

/*
 * A packed batch: records with their callstacks, as 32-bit words. Each batch can be decoded alone:
 * a record omits only what the previous record of the batch contains.
 *
 *   allocation  time | head | size | n_samples | frames    wide: size takes two words
 *   deep        time | head | size | n_samples | shared | new | frames
 *   others      time | head                                wide: | id, two words
 *   thread      tid  | head                                of the records from here on
 *
 * time: since the batch's time, in units of MEMPROF_PACKED_TIME_NS; for promotions and deaths in
 * the minor heap, the end of their collection, or later. head: the kind in bits 0..2,
 * MEMPROF_PACKED_THREAD for a thread, bit 3: wide. The other bits
 *
 *   of allocations, whose id is the previous allocation's plus id_step:
 *     4..5    source
 *     6       the innermost frame is the address of its debuginfo, by which the runtime
 *             distinguishes combined allocations
 *     7       further, outer frames are missing
 *     8..16   number of outermost frames equal to those of the previous callstack
 *     17..25  number of frames that follow, outermost first
 *     26      deep: both numbers are separate words after n_samples instead
 *   of other records
 *     4..31   id of the last allocation minus this id, in id_steps
 *
 * Frames are return addresses, as signed distances from base_address, or MEMPROF_PACKED_FAR and the
 * address in two words.
 */
#define MEMPROF_PACKED_TIME_NS 16u
#define MEMPROF_PACKED_THREAD 6u
#define MEMPROF_PACKED_WIDE (1u << 3)
#define MEMPROF_PACKED_SOURCE(source) ((__u32)(source) << 4)
#define MEMPROF_PACKED_DEBUGINFO (1u << 6)
#define MEMPROF_PACKED_CUT (1u << 7)
#define MEMPROF_PACKED_SHARED(frames) ((__u32)(frames) << 8)
#define MEMPROF_PACKED_NEW(frames) ((__u32)(frames) << 17)
#define MEMPROF_PACKED_DEEP (1u << 26)
#define MEMPROF_PACKED_MAX_COUNT 0x1ffu /* maximum frame count in the head */
#define MEMPROF_PACKED_BEHIND(steps) ((__u32)(steps) << 4)
#define MEMPROF_PACKED_MAX_BEHIND 0xfffffffu
#define MEMPROF_PACKED_FAR 0x80000000u

struct memprof_packed_head {
	__u64 time_ns;	    /* of the batch's first record */
	__u64 base_address; /* of frames */
	__u64 last_sample;  /* the id before that of the batch's first allocation */
	__u32 id_step;
	__u32 records; /* without thread records; set by a flush */
};

struct memprof_packed {
	struct memprof_packed_head head;
	__u32 words[MEMPROF_PACKED_WORDS];
};

/* Format of the records in a batch. */
enum memprof_batch_format {
	MEMPROF_BATCH_PLAIN = 0,  /* an array of struct memprof_record */
	MEMPROF_BATCH_PACKED = 1, /* struct memprof_packed */
};

enum memprof_agent_state {
	MEMPROF_AGENT_IDLE = 0,
	MEMPROF_AGENT_SAMPLING = 1,
	MEMPROF_AGENT_IN_USE = 2,      /* the program runs Gc.Memprof itself; nothing is changed */
	MEMPROF_AGENT_UNSUPPORTED = 3, /* no usable Memprof in this runtime */
	MEMPROF_AGENT_STOPPED = 4,     /* the program has called Gc.Memprof.stop */
	/* OCaml 4: the program samples by itself; STOPPED once it no longer does. */
	MEMPROF_AGENT_ASIDE = 5,
};

enum memprof_gc_phase {
	MEMPROF_GC_MINOR = 0,	    /* one minor collection */
	MEMPROF_GC_MAJOR_SLICE = 1, /* one slice of major work */
	MEMPROF_GC_PHASES = 2,
};

struct memprof_pauses {
	__u64 sum_ns;
	__u64 count[MEMPROF_PAUSE_BUCKETS];
};

/* Offsets in the domain state that are the same in every OCaml 5 runtime that an agent samples;
 * bytes. The watcher starts no session in any other runtime. */
enum memprof_domain_place {
	MEMPROF_DOMAIN_YOUNG_PTR = 8,
	MEMPROF_DOMAIN_YOUNG_START = 16,
	MEMPROF_DOMAIN_YOUNG_END = 24,
	MEMPROF_DOMAIN_CURRENT_STACK = 40,
	MEMPROF_DOMAIN_C_STACK = 64,
	MEMPROF_DOMAIN_ALLOCATED_WORDS = 128, /* in the major heap, since its last slice */
	MEMPROF_DOMAIN_TRIGGER = 8,	      /* memprof_young_trigger, after its Memprof */
};

/*
 * Offsets in an OCaml 5 runtime for which it exports no function; bytes. They differ between
 * versions; the watcher supplies them. All 0: not supplied yet.
 */
struct memprof_runtime_offsets {
	__u32 external_interrupt; /* domain state: requested_external_interrupt */
	__u32 memprof;		  /* domain state: its Memprof */
	__u32 memprof_config;	  /* a domain's Memprof: the profile it uses */
	__u32 stat_words;	  /* domain state: stat_minor_words, promoted, major follow */
	__u32 shared_heap;	  /* domain state: its part of the major heap */
	/* 1: a collection caused by a sample's block preserves the sample's callstack. */
	__u16 callstacks_stay;
	/* Domain state: local_roots. 0: not supplied, because the agent may not make a page of the
	 * program writable. */
	__u16 local_roots;
};

/* The same for OCaml 4: offsets from bottom_of_stack, which the agent reads from the program's
 * code. */
enum memprof_state_place {
	MEMPROF_STATE_LOCAL_ROOTS = 80,
};

/* Allocation counts of the domain that currently has this index. */
struct memprof_domain {
	__u64 state;	     /* its domain state; 0: unknown or none */
	__u64 heap_bytes;    /* its part of the major heap, at its last minor collection */
	__u64 base_words[3]; /* its words when it began: minor, promoted, major */
};

/* The batch being filled by one domain. */
struct memprof_batch_buffer {
	__u64 first_seq;
	__u32 count;
	__u32 generation; /* session that every record in the batch belongs to */
	__u64 last_sample;
	__u32 words;  /* number of words of a packed batch */
	__u32 format; /* enum memprof_batch_format */
	union {
		struct memprof_record records[MEMPROF_BATCH_RECORDS];
		struct memprof_packed packed;
	};
};

struct memprof_agent_control {
	__u64 magic;
	__u32 abi_version;
	__u32 control_bytes; /* sizeof(struct memprof_agent_control) */
	__u32 buffer_bytes;  /* sizeof(struct memprof_batch_buffer) */
	__u32 buffer_count;  /* MEMPROF_BUFFERS */
	__u32 domain_bytes;  /* sizeof(struct memprof_domain) */
	__u32 domain_count;  /* MEMPROF_DOMAINS */

	/* Written by the watcher. A new generation makes the agent (re)start with the new rate at
	 * the next opportunity; rate 0: do not sample. */
	double requested_rate;	  /* samples per word, 0 .. 1 */
	__u64 requested_until_ns; /* CLOCK_MONOTONIC; the watcher extends it regularly */
	__u32 requested_generation;
	__u32 requested_capture; /* enum memprof_capture_by; goes with the rate */
	struct memprof_runtime_offsets offsets;
	__u64 owner[2]; /* token of the watcher that the agent belongs to; 0: none */

	/* Written by the agent. */
	__u64 buffers;	  /* address of the first of buffer_count struct memprof_batch_buffer */
	__u64 domains;	  /* address of the first of domain_count struct memprof_domain */
	double rate;	  /* of the running or last session */
	__u32 generation; /* requested_generation that state refers to */
	__u32 state;	  /* enum memprof_agent_state */
	__u64 starts;	  /* sessions started and ended since the process began */
	__u64 stops;
	__u64 conflicts;	/* domains not sampled because the program samples there itself */
	__u64 domains_left_out; /* domains not sampled: too many for a profile each */
	__u64 program_stops;	/* profiles that the program has ended by Gc.Memprof.stop */
	/* Minor, promoted, major words allocated by domains that have ended while known. */
	__u64 ended_words[3];
	struct memprof_pauses pauses[MEMPROF_GC_PHASES]; /* counted only while sampling */

	__u32 running_generation; /* session that new records belong to */
	__u32 buffers_used;	  /* buffers from this one on have never been used */
	/* enum memprof_capture_by of the running session: the requested mode or, if the agent
	 * cannot walk, runtime capture. */
	__u32 running_capture;
	__u32 domains_used; /* like buffers_used */

	/* Since interface 6. Blocks that were sampled in sessions of this generation and later are
	 * followed for their whole life; those of earlier sessions are forgotten. In OCaml 4 it is
	 * the generation of the running session, whose start forgets all earlier blocks. Set before
	 * the announcement. */
	__u32 followed_since;
	__u32 callstacks_moved; /* samples whose callstack was no longer valid */
	/* Words that domains allocated during changes of the session: from the end of one session
	 * until each domain sampled in the next. */
	__u64 unsampled_words;
	/* For sessions in agent capture. */
	__u32 walk_state;     /* enum memprof_walk_state of the last session */
	__u32 callstacks_cut; /* samples reported with their innermost frame only; wraps */
	/* OCaml 5: deaths in a minor heap that may be promotions: the runtime counted the blocks as
	 * dead, and no information remains to verify that. */
	__u64 uncertain_deaths;
};

/*
 * memprof:batch(records pointer, count, first_seq, generation, buffer, format), x86-64: the
 * registers of the C calling convention rdi, esi, rdx, ecx, r8d, r9d.
 * A batch with count 0 is a start announcement: "sampling runs, generation G". Promotions and
 * deaths of blocks sampled before may come in batches of either session.
 * With a packed batch, the pointer is to its struct memprof_packed, and count is the number of its
 * words.
 */

#endif
