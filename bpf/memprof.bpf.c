// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Entry points of the kernel side of one target. Each is thin: it checks that the process is the
 * target, then calls a worker. Nothing here reads the kernel's own structures, so the object loads
 * on kernels without type information (BTF); code that reads them is in tasks.bpf.c.
 *
 * Synchronisation: several threads of the target may be in any program at once, and a program may
 * be preempted. A walk owns its scratch slot from take_scratch to give_scratch. All other writes go
 * to the program's own ring buffer record, a single 8-byte word, or an atomic counter.
 */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "events.h"

/* Missing in the headers of Debian 12. */
#ifndef PT_REGS_PARM6
#define PT_REGS_PARM6(context) ((context)->r9)
#endif

/* Set before load. Ranges are [begin, end). */
const volatile bool fiber_stacks = false;	  /* OCaml 5 */
const volatile __u64 bottom_of_stack_address = 0; /* OCaml 4 */
const volatile __u64 user_callstack_begin = 0;
const volatile __u64 user_callstack_end = 0;
const volatile __u64 track_interned_begin = 0;
const volatile __u64 track_interned_end = 0;
/* Observe mode: the domain state, and bytes into it. */
const volatile __u64 domain_state_address = 0; /* OCaml 4 */
const volatile __u32 current_stack_offset = 0; /* OCaml 5 */
const volatile __u32 stat_words_offset = 0;
const volatile __u32 young_ptr_offset = 0;
const volatile __u32 young_end_offset = 0;
const volatile __u32 young_limit_offset = 0;
const volatile __u32 domain_id_offset = 0; /* OCaml 5 */
/* Native heap: the offset in the domain state of OCaml 5 of the link to the C stack, and the code
 * that calls C: the runtime's in OCaml 5, OCaml code itself in OCaml 4. */
const volatile __u32 c_stack_offset = 0;
const volatile __u64 c_call_begin = 0;
const volatile __u64 c_call_end = 0;
const volatile __u32 table_bits = 1;
const volatile __u32 max_frames = 1;
const volatile __u32 entry_room = 1;
const volatile __u32 seen_stacks = 1;
const volatile __u32 scratch_slots = 1; /* entries of that map */
const volatile bool follow_forks = false;

static const __u64 *memprof_walk_slot(__u32 index);

static __always_inline long memprof_walk_read(void *to, __u32 bytes, __u64 address)
{
	return bpf_probe_read_user(to, bytes, (const void *)address);
}

#include "frametable_walk.bpf.h"
#include "maps.bpf.h"
#include "target.bpf.h"

static __always_inline const __u64 *memprof_walk_slot(__u32 index)
{
	return bpf_map_lookup_elem(&frame_table, &index);
}

/* ---- captures ---- */

static __always_inline struct memprof_scratch *take_scratch(void)
{
	__u32 first = bpf_get_smp_processor_id();
	__u32 i;

	for (i = 0; i < MEMPROF_SCRATCH_TRIES; i++) {
		__u32 index = (first + i) % scratch_slots;
		struct memprof_scratch *slot = bpf_map_lookup_elem(&scratch, &index);

		if (slot && __sync_val_compare_and_swap(&slot->busy, 0, 1) == 0)
			return slot;
	}
	return 0;
}

static __always_inline void give_scratch(struct memprof_scratch *slot)
{
	__sync_lock_test_and_set(&slot->busy, 0);
}

enum caller {
	CALLER_MEMPROF,
	CALLER_INTERNED, /* unmarshalling */
	CALLER_USER,	 /* Printexc.get_callstack */
};

static __always_inline bool in_range(__u64 address, __u64 begin, __u64 end)
{
	return address >= begin && address < end;
}

/* Finds the function that requested a callstack with alloc_idx -1, by the return addresses near the
 * top of the native stack. Uses the walk's chunk buffer before the walk does. */
static __always_inline enum caller find_caller(struct memprof_walk *walk, __u64 native_sp)
{
	__u32 i;

	if (memprof_walk_read(walk->words, sizeof(walk->words), native_sp) != 0) {
		if (memprof_walk_read(walk->words, sizeof(walk->words[0]), native_sp) != 0)
			return CALLER_MEMPROF;
	}
	if (in_range(walk->words[0], user_callstack_begin, user_callstack_end))
		return CALLER_USER;
	for (i = 0; i < MEMPROF_CHUNK_WORDS; i++)
		if (in_range(walk->words[i], track_interned_begin, track_interned_end))
			return CALLER_INTERNED;
	return CALLER_MEMPROF;
}

/* Sends a stack, or only its id if it was sent before. Returns false if it could not be sent. */
static __always_inline bool send_stack(struct memprof_scratch *slot, __u32 tid)
{
	struct memprof_capture *capture = (struct memprof_capture *)slot->event;
	__u32 key = capture->stack_id % seen_stacks;
	__u64 *mark = bpf_map_lookup_elem(&seen, &key);
	__u64 id = capture->stack_id;
	__u32 n = capture->n_entries;

	if (mark && *mark == id)
		n = 0;
	fill_header(&capture->header, MEMPROF_EVENT_CAPTURE, tid);
	capture->n_entries = n;
	capture->captures_dropped = captures_dropped;

	/* Keeps the bound and the size in one register for the verifier. */
	asm volatile("" : "+r"(n));
	if (n > entry_room)
		return true;
	if (bpf_ringbuf_output(&events, slot->event, sizeof(*capture) + n * sizeof(__u64),
			       wakeup_flags()) != 0)
		return false;
	if (n > 0) {
		count_done(MEMPROF_COUNT_STACKS_SENT);
		if (mark)
			*mark = id;
	}
	return true;
}

static __always_inline void send_capture(struct memprof_scratch *slot, __u32 tid)
{
	if (send_stack(slot, tid))
		count_done(MEMPROF_COUNT_CAPTURES);
	else
		count_capture_drop(MEMPROF_DROP_CAPTURE_RING_FULL);
}

/* top: the start of the walk, see memprof_walk_stack(). */
static __always_inline void walk_and_send(struct memprof_scratch *slot, __u64 top, __u64 native_sp,
					  __s32 alloc_idx, __u32 tid)
{
	enum caller caller = CALLER_MEMPROF;

	/* Printexc and unmarshalling always pass -1. OCaml 5 has another function for Printexc, and
	 * its unmarshalling makes a request for each block. */
	if (alloc_idx == -1 && !fiber_stacks)
		caller = find_caller(&slot->walk, native_sp);
	if (caller == CALLER_USER) {
		count_done(MEMPROF_COUNT_USER_CALLSTACKS);
		return;
	}
	if (memprof_walk_stack(slot, top, alloc_idx) != 0) {
		count_capture_drop(MEMPROF_DROP_CAPTURE_NO_STATE);
		return;
	}
	if (caller == CALLER_INTERNED)
		((struct memprof_capture *)slot->event)->flags |= MEMPROF_CAPTURE_INTERNED;
	send_capture(slot, tid);
}

static __always_inline int walk_from(__u64 top, __u64 native_sp, __s32 alloc_idx)
{
	__u32 tid = target_tid();
	struct memprof_scratch *slot;

	if (tid == 0)
		return 0;
	slot = take_scratch();
	if (!slot) {
		count_capture_drop(MEMPROF_DROP_CAPTURE_SCRATCH_BUSY);
		return 0;
	}
	walk_and_send(slot, top, native_sp, alloc_idx, tid);
	give_scratch(slot);
	return 0;
}

/* OCaml 4: at the entry of caml_collect_current_callstack(buffer, length, max, alloc_idx). */
SEC("uprobe")
int capture(struct pt_regs *ctx)
{
	return walk_from(bottom_of_stack_address, PT_REGS_SP(ctx), (__s32)PT_REGS_PARM4(ctx));
}

/* OCaml 5: at the jump that ends caml_get_callstack, to
 * get_callstack(stack, max, alloc_idx, buffer, length). */
SEC("uprobe")
int capture_fibers(struct pt_regs *ctx)
{
	return walk_from(PT_REGS_PARM1(ctx), PT_REGS_SP(ctx), (__s32)PT_REGS_PARM3(ctx));
}

/* ---- observe mode ---- */

#include "observe.bpf.h"

/* OCaml 4: at caml_alloc_small_dispatch(wosize, flags, nallocs, encoded_alloc_lens). */
SEC("uprobe")
int observe(struct pt_regs *ctx)
{
	struct observed_allocation allocation = {
		.state = domain_state_address,
		.words = PT_REGS_PARM1(ctx),
		.flags = (__u32)PT_REGS_PARM2(ctx),
		.blocks = (__u32)PT_REGS_PARM3(ctx),
		.lengths = PT_REGS_PARM4(ctx),
	};

	return observe_allocation(&allocation, bottom_of_stack_address);
}

/* OCaml 5: the same after the domain state. */
SEC("uprobe")
int observe_domains(struct pt_regs *ctx)
{
	__u64 stack = 0;
	struct observed_allocation allocation = {
		.state = PT_REGS_PARM1(ctx),
		.words = PT_REGS_PARM2(ctx),
		.flags = (__u32)PT_REGS_PARM3(ctx),
		.blocks = (__u32)PT_REGS_PARM4(ctx),
		.lengths = PT_REGS_PARM5(ctx),
	};

	if (target_tid() != 0)
		memprof_walk_read(&stack, sizeof(stack), allocation.state + current_stack_offset);
	return observe_allocation(&allocation, stack);
}

/* ---- C memory ---- */

#include "native_heap.bpf.h"
#include "malloc_probes.bpf.h"

/* ---- batches ---- */

/* Address of the agent's memprof_agent_control, written by the daemon; 0: there is no agent yet. */
__u64 agent_control = 0;

/* Per buffer, for the last batch that could not be sent: records and sampled blocks up to its
 * end. */
__u64 lost_records[MEMPROF_BUFFERS] = {};
__u64 lost_samples[MEMPROF_BUFFERS] = {};

/* The beginning of struct memprof_batch_buffer. */
struct buffer_head {
	__u64 first_seq;
	__u32 count;
	__u32 generation;
	__u64 last_sample;
	__u32 words;
	__u32 format;
};
_Static_assert(sizeof(struct buffer_head) ==
		       __builtin_offsetof(struct memprof_batch_buffer, records),
	       "the head of a buffer");

struct batch_args {
	__u64 records; /* address in the target */
	__u64 first_seq;
	__u32 generation;
	__u32 count;
	__u32 buffer;
	__u32 format; /* enum memprof_batch_format */
	__u32 tid;
	/* Address of struct memprof_batch_buffer if this is an unflushed batch, whose first_seq and
	 * count it has. */
	__u64 tail_of;
	__u32 n_records;
};

/* True if the tail was flushed while it was read. */
static __always_inline bool tail_has_gone(const struct batch_args *args)
{
	__u64 first_seq = 0;

	return args->tail_of != 0 &&
	       (memprof_walk_read(&first_seq, sizeof(first_seq), args->tail_of) != 0 ||
		first_seq != args->first_seq);
}

/* Notes how far the buffer of a batch that could not be sent has come, for a program that ends
 * without another batch. Not static, so that the kernel verifies it once. */
__noinline int note_lost(__u32 index)
{
	struct memprof_agent_control *control = (void *)agent_control;
	struct buffer_head head;
	__u64 buffers;

	if (index >= MEMPROF_BUFFERS || !control ||
	    memprof_walk_read(&buffers, sizeof(buffers), (__u64)&control->buffers) != 0 ||
	    memprof_walk_read(&head, sizeof(head),
			      buffers + index * sizeof(struct memprof_batch_buffer)) != 0)
		return 0;
	lost_records[index] = head.first_seq + head.count;
	lost_samples[index] = head.last_sample;
	return 0;
}

static __always_inline void lose_batch(const struct batch_args *args, __u32 reason)
{
	count_drop(reason);
	note_lost(args->buffer);
}

/* capacity is a constant: the ring buffer reserves constant sizes only. */
static __always_inline void send_batch(const struct batch_args *args, const __u32 capacity)
{
	struct memprof_batch *batch;
	__u32 count = args->count;
	__u64 flags = wakeup_flags();

	batch = bpf_ringbuf_reserve(&events,
				    sizeof(*batch) + capacity * sizeof(struct memprof_record), 0);
	if (!batch) {
		lose_batch(args, MEMPROF_DROP_BATCH_RING_FULL);
		return;
	}
	fill_header(&batch->header, MEMPROF_EVENT_BATCH, args->tid);
	batch->first_seq = args->first_seq;
	batch->generation = args->generation;
	batch->count = count;
	batch->buffer = args->buffer;
	batch->reserved = 0;

	/* Keeps the bound and the size in one register for the verifier. */
	asm volatile("" : "+r"(count));
	if (count > capacity ||
	    (capacity > 0 &&
	     memprof_walk_read(batch->records, count * sizeof(struct memprof_record),
			       args->records) != 0)) {
		bpf_ringbuf_discard(batch, BPF_RB_NO_WAKEUP);
		lose_batch(args, MEMPROF_DROP_BATCH_UNREADABLE);
		return;
	}
	if (tail_has_gone(args)) {
		bpf_ringbuf_discard(batch, BPF_RB_NO_WAKEUP);
		return;
	}
	bpf_ringbuf_submit(batch, flags);
	count_done(MEMPROF_COUNT_BATCHES);
}

/* n_words is a constant too. */
static __always_inline void send_packed(const struct batch_args *args, const __u32 n_words)
{
	const __u32 fixed = offsetof(struct memprof_packed_batch, packed.words);
	struct memprof_packed_batch *batch;
	__u32 count = args->count;
	__u64 flags = wakeup_flags();

	batch = bpf_ringbuf_reserve(&events, fixed + n_words * sizeof(__u32), 0);
	if (!batch) {
		lose_batch(args, MEMPROF_DROP_BATCH_RING_FULL);
		return;
	}
	fill_header(&batch->header, MEMPROF_EVENT_PACKED, args->tid);
	batch->first_seq = args->first_seq;
	batch->generation = args->generation;
	batch->n_words = count;
	batch->buffer = args->buffer;
	batch->reserved = 0;

	/* As above. */
	asm volatile("" : "+r"(count));
	if (count > n_words ||
	    memprof_walk_read(&batch->packed, sizeof(batch->packed.head) + count * sizeof(__u32),
			      args->records) != 0) {
		bpf_ringbuf_discard(batch, BPF_RB_NO_WAKEUP);
		lose_batch(args, MEMPROF_DROP_BATCH_UNREADABLE);
		return;
	}
	if (tail_has_gone(args)) {
		bpf_ringbuf_discard(batch, BPF_RB_NO_WAKEUP);
		return;
	}
	if (args->tail_of != 0) /* otherwise a flush has reported it */
		batch->packed.head.records = args->n_records;
	bpf_ringbuf_submit(batch, flags);
	count_done(MEMPROF_COUNT_BATCHES);
}

static __always_inline int take_packed(const struct batch_args *args)
{
	if (args->count > MEMPROF_PACKED_WORDS)
		count_drop(MEMPROF_DROP_BATCH_BAD_COUNT);
	else if (args->count > 4000)
		send_packed(args, MEMPROF_PACKED_WORDS);
	else if (args->count > 1000)
		send_packed(args, 4000);
	else if (args->count > 100)
		send_packed(args, 1000);
	else
		send_packed(args, 100);
	return 0;
}

static __always_inline int take_plain(const struct batch_args *args)
{
	if (args->count > MEMPROF_BATCH_RECORDS)
		count_drop(MEMPROF_DROP_BATCH_BAD_COUNT);
	else if (args->count > 128)
		send_batch(args, MEMPROF_BATCH_RECORDS);
	else if (args->count > 16)
		send_batch(args, 128);
	else if (args->count > 0)
		send_batch(args, 16);
	else
		send_batch(args, 0);
	return 0;
}

/* At memprof:batch(records, count, first_seq, generation, buffer, format). */
SEC("uprobe")
int batch(struct pt_regs *ctx)
{
	struct batch_args args = {
		.records = PT_REGS_PARM1(ctx),
		.count = (__u32)PT_REGS_PARM2(ctx),
		.first_seq = PT_REGS_PARM3(ctx),
		.generation = (__u32)PT_REGS_PARM4(ctx),
		.buffer = (__u32)PT_REGS_PARM5(ctx),
		.format = (__u32)PT_REGS_PARM6(ctx),
		.tid = target_tid(),
	};

	if (args.tid == 0)
		return 0;
	if (args.buffer < MEMPROF_BUFFERS) {
		if (args.format == MEMPROF_BATCH_PACKED)
			return take_packed(&args);
		if (args.format == MEMPROF_BATCH_PLAIN)
			return take_plain(&args);
	}
	count_drop(MEMPROF_DROP_BATCH_BAD_COUNT);
	return 0;
}

#include "tails.bpf.h"

/* ---- lifecycle ---- */

static __always_inline int send_lifecycle(__u32 what)
{
	struct memprof_lifecycle event = {.what = what};
	__u32 tid = target_tid();

	if (tid == 0)
		return 0;
	fill_header(&event.header, MEMPROF_EVENT_LIFECYCLE, tid);
	event.header.captures_dropped = 0;
	if (bpf_ringbuf_output(&events, &event, sizeof(event), BPF_RB_FORCE_WAKEUP) != 0)
		count_drop(MEMPROF_DROP_LIFECYCLE_RING_FULL);
	return 0;
}

/* A child that ends or calls exec is no longer followed. */
static __always_inline void forget_child(void)
{
	__u64 both = bpf_get_current_pid_tgid();
	__u32 pid = both >> 32;

	if (follow_forks && pid == (__u32)both)
		bpf_map_delete_elem(&children, &pid);
}

SEC("raw_tp/sched_process_exec")
int on_exec(void *ctx)
{
	forget_child();
	if (target_tid() != 0)
		switch_hits_off(MEMPROF_CALLS_EXEC, bpf_ktime_get_ns());
	return send_lifecycle(MEMPROF_LIFECYCLE_EXEC);
}

SEC("raw_tp/sched_process_exit")
int on_thread_exit(void *ctx)
{
	__u32 tid = target_tid();

	forget_child();
	if (tid == 0) /* Nearly always: each target's program runs at each thread's end. */
		return 0;
	end_c_thread(tid);
	/* A program that ends by _exit: before Linux 6.16 its memory is already gone here. */
	if (tid == target_tgid)
		send_tails(tid);
	return send_lifecycle(MEMPROF_LIFECYCLE_THREAD_EXIT);
}

/* At caml_register_frametable: Dynlink has loaded new code. */
SEC("uprobe")
int frametable_registered(struct pt_regs *ctx)
{
	return send_lifecycle(MEMPROF_LIFECYCLE_FRAMETABLE);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
