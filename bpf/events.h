/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The contract between the BPF programs and the daemon: every record that
 * passes through the ring buffer, every drop reason, every limit.
 *
 * All integers are little-endian and naturally aligned; all sizes are asserted
 * at the end for both sides. Records arrive in the order of their submission;
 * records of one thread are in time order.
 */
#ifndef MEMPROF_EVENTS_H
#define MEMPROF_EVENTS_H

#include "../agent-lib/include/memprof_agent_abi.h"
#include "../agent-lib/include/memprof_native_heap_abi.h"

/* Maximum number of entries of a captured stack (after run-length coding). Further outer frames are
 * dropped, and MEMPROF_CAPTURE_TRUNCATED is set. */
#define MEMPROF_MAX_STACK_ENTRIES 8192u

/* An entry with this bit is a run: its low 32 bits are the number of further repeats of the address
 * in the entry before it. "f f f f g" is [f, RUN|3, g]. */
#define MEMPROF_RUN_MARK (1ULL << 63)

/* Maximum number of frames of a walk, whatever --max-frames is. */
#define MEMPROF_MAX_FRAMES (1u << 20)

/* Number of ids of recently sent stacks; a repeated stack is sent as its id only. */
#define MEMPROF_SEEN_STACKS 16384u

/* Maximum number of processes that the target forked, that live, and that have not called exec. */
#define MEMPROF_MAX_CHILDREN 1024u

/* Number of slots for concurrent walks that a walk tries; if none is free it is dropped. */
#define MEMPROF_SCRATCH_TRIES 4u

enum memprof_event_kind {
	MEMPROF_EVENT_CAPTURE = 1,
	MEMPROF_EVENT_BATCH = 2,
	MEMPROF_EVENT_LIFECYCLE = 3,
	MEMPROF_EVENT_OBSERVED = 4,
	MEMPROF_EVENT_FORK = 5,
	MEMPROF_EVENT_PACKED = 6,
	MEMPROF_EVENT_C_BLOCK = 7,
};

struct memprof_event_header {
	__u32 kind; /* enum memprof_event_kind */
	__u32 tgid; /* the process as the daemon numbers it */
	__u32 tid;  /* thread id as in gettid() of the program, like the agent's records */
	/* Low half of the number of this target's captures lost so far, 0 if not reported. A batch
	 * must report it: a capture may be lost between the last one that arrived and the batch's
	 * records. */
	__u32 captures_dropped;
	__u64 time_ns; /* CLOCK_MONOTONIC */
};

enum memprof_capture_flags {
	/* The block comes from unmarshalling: one capture stands for several blocks. */
	MEMPROF_CAPTURE_INTERNED = 1,
	/* Frames beyond the depth cap or MEMPROF_MAX_STACK_ENTRIES are missing. */
	MEMPROF_CAPTURE_TRUNCATED = 2,
	/* The walk ended at an address that is in no frame table or at unreadable memory. */
	MEMPROF_CAPTURE_BROKEN = 4,
	/* A native block was allocated there; this is not a sample of the runtime. */
	MEMPROF_CAPTURE_OF_C = 8,
};

/* The callstack at a sampling instant. */
struct memprof_capture {
	struct memprof_event_header header;
	__u64 stack_id;		/* hash over alloc_idx and the entries; never 0 */
	__s32 alloc_idx;	/* which of combined allocations; -1: callback postponed */
	__u32 flags;		/* enum memprof_capture_flags */
	__u32 n_frames;		/* frames walked, runs counted in full */
	__u32 n_entries;	/* entries that follow; 0: the stack was sent before, or is empty */
	__u64 captures_dropped; /* captures of this target lost so far */
	__u64 entries[];	/* return addresses innermost first, runs marked */
};

/* A batch of the agent's records, copied as it is; checked by the daemon. */
struct memprof_batch {
	struct memprof_event_header header;
	__u64 first_seq;
	__u32 generation;
	__u32 count;
	__u32 buffer; /* below MEMPROF_BUFFERS */
	__u32 reserved;
	struct memprof_record records[];
};

/* A packed batch, copied unchanged. Without words it is an announcement, and its head has no
 * meaning. */
struct memprof_packed_batch {
	struct memprof_event_header header;
	__u64 first_seq;
	__u32 generation;
	__u32 n_words;
	__u32 buffer; /* below MEMPROF_BUFFERS */
	__u32 reserved;
	struct memprof_packed packed; /* ends after the words that it has */
};

/* Observe mode: an allocation that found no room in the minor heap. Its stack precedes it as a
 * capture. The runtime's counters are copied unchanged: doubles in OCaml 4, integers in OCaml 5. */
struct memprof_observed {
	struct memprof_event_header header;
	__u64 stack_id; /* 0: the stack could not be captured */
	__u64 domain_state;
	__u64 words[3]; /* allocated in the minor heap, promoted, allocated in the major heap */
	__u64 young_ptr;
	__u64 young_end;
	__u64 young_limit; /* young_end or above: the runtime wanted control */
	__u32 domain;	   /* its number; 0 in OCaml 4 */
	__u32 size_words;  /* of the block, without header; 0: not known */
};

/* A sampled native block (memprof_native_heap_abi.h). Its stack precedes it as a capture. */
struct memprof_c_block {
	struct memprof_event_header header;
	__u64 stack_id; /* 0: the stack is not known */
	__u64 id;
	__u64 bytes; /* 0: the block is freed, and the following fields have no meaning */
	__u32 n_samples;
	__u32 generation;
	__u64 lost;    /* number of such events lost so far */
	__u64 address; /* address in the program */
};

enum memprof_lifecycle_what {
	MEMPROF_LIFECYCLE_EXEC = 1,
	MEMPROF_LIFECYCLE_THREAD_EXIT = 2,
	MEMPROF_LIFECYCLE_FRAMETABLE = 3, /* new frame tables were registered */
};

struct memprof_lifecycle {
	struct memprof_event_header header;
	__u32 what; /* enum memprof_lifecycle_what */
	__u32 reserved;
};

/* A child of the target, or a child of a child that has not called exec. */
struct memprof_fork {
	struct memprof_event_header header;
	__u32 child; /* its pid in the initial pid namespace */
	__u32 reserved;
};

/* Reasons of losses on the kernel side; indexes into the drops map (per CPU, u64). */
enum memprof_kernel_drop {
	MEMPROF_DROP_CAPTURE_RING_FULL = 0,
	MEMPROF_DROP_CAPTURE_SCRATCH_BUSY = 1,
	MEMPROF_DROP_CAPTURE_NO_STATE = 2, /* Caml_state unreadable */
	MEMPROF_DROP_BATCH_RING_FULL = 3,
	MEMPROF_DROP_BATCH_BAD_COUNT = 4,
	MEMPROF_DROP_BATCH_UNREADABLE = 5,
	MEMPROF_DROP_LIFECYCLE_RING_FULL = 6,
	MEMPROF_DROP_OBSERVED_NO_STATE = 7, /* the domain state is unreadable */
	MEMPROF_DROP_OBSERVED_RING_FULL = 8,
	MEMPROF_DROP_CHILDREN_FULL = 9, /* a child whose own children will not be noticed */
	MEMPROF_DROP_C_EVENT_LOST = 10, /* no room in the ring, or unreadable */
	MEMPROF_DROP_C_STACK_LOST = 11, /* no room for it, or for its walk */
	MEMPROF_DROP_C_NO_RECORD = 12,	/* the runtime has not noted where OCaml code called C */
	MEMPROF_DROP_C_NO_LOCK = 13,	/* a thread that does not hold the runtime lock */
	MEMPROF_KERNEL_DROPS = 14,
};

/* Counters of the kernel side; index into the counts map (per CPU, u64). */
enum memprof_kernel_count {
	MEMPROF_COUNT_CAPTURES = 0,
	MEMPROF_COUNT_STACKS_SENT = 1,
	MEMPROF_COUNT_BATCHES = 2,
	MEMPROF_COUNT_USER_CALLSTACKS = 3, /* Printexc.get_callstack, not ours */
	MEMPROF_COUNT_OBSERVED = 4,
	MEMPROF_COUNT_C_EVENTS = 5,
	MEMPROF_KERNEL_COUNTS = 6,
};

/* End of the program (bpf/program_end.bpf.h): its status as wait() reports it, and */
#define MEMPROF_END_STATUS 0xffffULL
#define MEMPROF_END_KNOWN (1ULL << 32)
#define MEMPROF_END_OUT_OF_MEMORY (1ULL << 33) /* the OOM killer chose the program */

/*
 * Frame table as the walk sees it: open addressing, one u64 a slot,
 * retaddr << 16 | frame_size (raw, flag bits included); 0 is an empty slot.
 * Linear probing: home, home + 1, ... modulo the size, until an empty slot.
 */
#define MEMPROF_SLOT(retaddr, frame_size) ((__u64)(retaddr) << 16 | (__u16)(frame_size))
#define MEMPROF_SLOT_RETADDR(slot) ((slot) >> 16)
#define MEMPROF_SLOT_FRAME_SIZE(slot) ((__u16)(slot))
/* Longest probe sequence; a table that needs a longer one is built larger. */
#define MEMPROF_MAX_PROBES 64u

/* Home slot of a return address in a table of 1 << bits slots. */
static inline __u32 memprof_slot_home(__u64 retaddr, __u32 bits)
{
	return (__u32)((retaddr * 0x9e3779b97f4a7c15ULL) >> (64 - bits));
}

#ifdef __cplusplus
#define MEMPROF_ASSERT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type)
#else
#define MEMPROF_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#endif
MEMPROF_ASSERT_SIZE(struct memprof_record, 32);
MEMPROF_ASSERT_SIZE(struct memprof_event_header, 24);
MEMPROF_ASSERT_SIZE(struct memprof_capture, 56);
MEMPROF_ASSERT_SIZE(struct memprof_batch, 48);
MEMPROF_ASSERT_SIZE(struct memprof_packed, 65536);
MEMPROF_ASSERT_SIZE(struct memprof_packed_batch, 48 + 65536);
MEMPROF_ASSERT_SIZE(struct memprof_observed, 96);
MEMPROF_ASSERT_SIZE(struct memprof_c_block, 72);
MEMPROF_ASSERT_SIZE(struct memprof_c_event, 56);
MEMPROF_ASSERT_SIZE(struct memprof_lifecycle, 32);
MEMPROF_ASSERT_SIZE(struct memprof_fork, 32);

#endif
