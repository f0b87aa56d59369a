/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The contract between the agent and a reader without a kernel side: memory that both map. The
 * reader creates a memfd and starts the program with its number in MEMPROF_SHARE_FD; the first
 * process with an OCaml runtime takes it. In a process that runs already the agent creates the
 * memfd itself (struct memprof_share_order).
 *
 *   offset                  contents
 *   0                       struct memprof_share
 *   MEMPROF_SHARE_CONTROL   struct memprof_agent_control
 *   MEMPROF_SHARE_DOMAINS   struct memprof_domain[]
 *   MEMPROF_SHARE_BUFFERS   struct memprof_batch_buffer[]
 *   MEMPROF_SHARE_RING      ring_bytes of events
 *
 * The agent maps control, domains and buffers over its own data, so that it writes to the usual
 * addresses. An event in the ring is a u64 length, the event as in bpf/events.h, and padding to 8
 * bytes. Length MEMPROF_SHARE_SKIP: the rest of the ring is unused this time.
 *
 * The reader therefore has the records of unfinished batches, however the program ends. It treats
 * everything in this memory as hostile: it checks lengths and positions, and copies an event before
 * it decodes it. The agent never waits for the reader: a batch for which the ring has no room is
 * lost, which shows as a gap in the numbers of the records.
 *
 *   positions count bytes since the start; the ring has [read, written)
 *
 *     read = 4080          written = 4208, ring_bytes = 4096
 *     [112 | event, 8 bytes were left: SKIP][ event of 104 bytes at offset 0 ]
 */
#ifndef MEMPROF_SHARE_ABI_H
#define MEMPROF_SHARE_ABI_H

#include "memprof_agent_abi.h"

#define MEMPROF_SHARE_MAGIC 0x726168734d50524dULL /* "MRPMshar" read as bytes */
#define MEMPROF_SHARE_SKIP 0xffffffffffffffffULL
#define MEMPROF_SHARE_PAGE 4096u
#define MEMPROF_SHARE_PAGES(bytes)                                                                 \
	(((bytes) + MEMPROF_SHARE_PAGE - 1) / MEMPROF_SHARE_PAGE * MEMPROF_SHARE_PAGE)

#define MEMPROF_SHARE_CONTROL MEMPROF_SHARE_PAGES(sizeof(struct memprof_share))
#define MEMPROF_SHARE_CONTROL_BYTES MEMPROF_SHARE_PAGES(sizeof(struct memprof_agent_control))
#define MEMPROF_SHARE_DOMAINS (MEMPROF_SHARE_CONTROL + MEMPROF_SHARE_CONTROL_BYTES)
#define MEMPROF_SHARE_DOMAINS_BYTES                                                                \
	MEMPROF_SHARE_PAGES(sizeof(struct memprof_domain) * MEMPROF_DOMAINS)
#define MEMPROF_SHARE_BUFFERS (MEMPROF_SHARE_DOMAINS + MEMPROF_SHARE_DOMAINS_BYTES)
#define MEMPROF_SHARE_BUFFERS_BYTES                                                                \
	MEMPROF_SHARE_PAGES(sizeof(struct memprof_batch_buffer) * MEMPROF_BUFFERS)
#define MEMPROF_SHARE_RING (MEMPROF_SHARE_BUFFERS + MEMPROF_SHARE_BUFFERS_BYTES)

/* Environment of the program: the number of the memfd, and what LD_PRELOAD was before ("" when it
 * was not set). The agent that takes the memory removes the first. If the reader follows no
 * children it removes the second too and restores LD_PRELOAD, so the program and its children see
 * the environment that they would have had. */
#define MEMPROF_SHARE_FD "MEMPROF_SHARE_FD"
#define MEMPROF_SHARE_PRELOAD "MEMPROF_SHARE_PRELOAD"
/* Name of the reader's socket (abstract, SOCK_SEQPACKET) if it follows children. A process that has
 * not taken the memfd sends a memprof_share_request. It receives one byte with the descriptor of a
 * memfd of its own; if the connection ends instead, it is not followed. A forked child asks at its
 * first sample, so one that calls exec at once costs nothing. */
#define MEMPROF_SHARE_SOCKET "MEMPROF_SHARE_SOCKET"
#define MEMPROF_SHARE_NAME 64u /* maximum size of the name, with a final zero */

/* Maximum size of the path of a program that the agent reports, with its final zero. */
#define MEMPROF_SHARE_PATH 1024u

enum memprof_share_kind {
	MEMPROF_SHARE_STARTED = 1,    /* an OCaml program */
	MEMPROF_SHARE_FORKED = 2,     /* a forked child that runs the same program */
	MEMPROF_SHARE_NO_RUNTIME = 3, /* another program, which does not wait for an answer */
};

struct memprof_share_request {
	__u64 magic;	   /* MEMPROF_SHARE_MAGIC */
	__u32 abi_version; /* MEMPROF_AGENT_ABI */
	__u32 kind;	   /* enum memprof_share_kind */
	char exe[MEMPROF_SHARE_PATH];
};

struct memprof_share {
	__u64 magic;
	/* Written by the reader before the program starts. */
	__u32 abi_version; /* MEMPROF_AGENT_ABI; agents with another one do not take it */
	__u32 capture;	   /* enum memprof_capture_by: runtime or agent */
	__u64 ring_bytes;  /* a multiple of the page size */
	double rate;	   /* samples per word */
	__u64 until_ns;	   /* the first lease (requested_until_ns) */
	/* Offsets of an OCaml 5 runtime. All 0: unknown, as when a script starts the program. The
	 * reader writes them to the control block once it has identified the program, and the
	 * program waits for that (answered), since it could not be sampled before. */
	struct memprof_runtime_offsets offsets;
	/* Written by the agent. */
	__u32 pid;  /* pid of the process that has taken it, in its namespace; 0: none yet */
	__u32 lock; /* held by a writer of the ring */
	/* Addresses in the program, set when it has taken the memory; control last. */
	__u64 domains, buffers;
	__u64 callback_exn; /* its address shows where the program is loaded */
	__u64 control;
	char exe[MEMPROF_SHARE_PATH]; /* /proc/self/exe; "" if it is too long */
	/* The reader's token, as in the control block. Written by the reader before its session. If
	 * the control block has another one, a session is not for this reader: the agent leaves the
	 * memory before it begins. */
	__u64 owner[2];
	__u64 written __attribute__((aligned(64)));
	/* Written by the reader. */
	__u64 read __attribute__((aligned(64)));
	__u32 answered; /* 1: the reader has written offsets, or refuses the program */
};

/* Size of the ring that the agent creates, and of readers by default. Only used pages cost memory.
 */
#define MEMPROF_SHARE_RING_BYTES (8u << 20)

/*
 * The symbol memprof_share_order: how a reader that may write to the process's memory has a loaded
 * agent without a session share its memory. Neither waits for the other:
 *
 *   reader  writes until_ns, then wanted, another number than answered
 *   agent   at the end of the next minor collection: makes the memfd, maps its data to it, and
 *           writes descriptor, then answered
 *   reader  opens /proc/PID/fd/DESCRIPTOR, writes its token, and requests a session in the control
 *           block, which is shared now
 *   agent   closes the descriptor when the session begins; when it ends its data is its own again
 *
 * The order is a lease: if no session has been requested until_ns, because the reader has died,
 * the agent makes no memory, or closes the descriptor and takes its data back. The next order
 * replaces memory that was shared before.
 */
struct memprof_share_order {
	__u64 until_ns;	  /* CLOCK_MONOTONIC; written by the reader, which may move it on */
	__u32 wanted;	  /* written by the reader */
	__u32 answered;	  /* written by the agent: the last order that it has handled */
	__s32 descriptor; /* of the process; -errno: it did not make the memory */
	__u32 reserved;
};

#endif
