/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Native heap: the agent reports a block in the middle of malloc, deep in C code. The runtime's
 * note in caml_c_call leads to the OCaml code that called C, if there is a note: a [@@noalloc]
 * external is called without one, and a thread that has released the runtime lock sees the note of
 * another thread. A note is used only if it is proved to belong to this very call.
 *
 * OCaml 4 notes bottom_of_stack B and last_return_address r, and jumps to the C function, so the
 * function's own return address stays in place:
 *
 *     B ---->  | OCaml frames     |
 *     B - 8    | r: return to f   |   any other call from there on would have overwritten it
 *              | frames of C      |
 *     sp --->  | the agent        |
 *
 * That word may have survived in a hole in the frames of C code that was called later without a
 * note. There are three cases. If that code was called by the frame that made the noted call, or by
 * a frame above it, the walk finds the return from the new call, which has no descriptor; then it
 * does not reach its end, and the result is not a callstack. If it was called by a frame below, the
 * return from the new call lies between sp and B, and is searched for. The remaining case is a
 * frame in between whose callers the walk mistakes for those of the older call: C code that calls
 * malloc, was called without a note, and has holes where two words of the older frames were.
 * Searching for its return above B, too, was tried: dead words of OCaml frames made a third of the
 * correct notes uncertain.
 *
 * Dead words between sp and B are common if the noted C code has called back to OCaml, as ctypes
 * does to have its arguments written: they are returns from calls without a note that the callback
 * made. Each callback has an exception handler of its own, so if the innermost handler lies at B or
 * above, no callback is running. A return W from a call without a note is then live only if OCaml
 * frames lead from it beyond B: the frame that W returns to, whose size is read from the end of its
 * function, and the frames of its callers, which have descriptors.
 *
 *     B ---->      | OCaml frames |
 *                  | ..           |   live: the frames above W lead past B
 *     W + 8 + size | return       |   dead: they end at a callback, or in what was written since
 *                  | frame        |
 *     W            | return       |
 *
 * OCaml 5 calls C on a separate stack. Below the link between both stacks lies the return address
 * into the runtime's own code; for a noalloc call it is an address in OCaml code instead.
 *
 * The runtime's note belongs to the holder of the runtime lock. A thread that has released the lock
 * supplies the note that it remembered, which is tested in the same way.
 */
#ifndef MEMPROF_NATIVE_HEAP_BPF_H
#define MEMPROF_NATIVE_HEAP_BPF_H

/* No stack is larger than this. */
#define C_STACK_MAX_BYTES (64ULL << 20)
#define C_SEARCH_MAX_WORDS 4096u
#define CALL_INSTRUCTION 0xe8	  /* followed by four bytes */
#define ADD_TO_RSP_8 0xc48348ULL  /* and a byte */
#define ADD_TO_RSP_32 0xc48148ULL /* followed by four bytes */
#define RET_INSTRUCTION 0xc3ULL
#define EXCEPTION_POINTER 16 /* offset in the domain state of OCaml 4 */
/* Limits of a search: candidate returns, and frames of each candidate. */
#define C_SEARCH_MAX_CANDIDATES 16u
#define C_SEARCH_MAX_FRAMES 256u
#define FRAME_END_MAX_BYTES 256u
#define MAX_HANDLERS 3u

__u64 c_events_lost = 0;

static __always_inline void lose_c_event(void)
{
	__sync_fetch_and_add(&c_events_lost, 1);
	count_drop(MEMPROF_DROP_C_EVENT_LOST);
}

struct memprof_c_search {
	struct memprof_walk *walk;
	__u64 from;
	__u64 end; /* bottom_of_stack of the note */
	__u32 callbacks_are_over;
	__u32 candidates;
	__u32 found;
};

struct memprof_frame_end {
	__u64 code;
	__u32 bytes; /* by which the function's end raises the stack pointer; 0: not found */
};

/* Finds "add $N, %rsp; ret", the end of each function that calls others. A callback of bpf_loop. */
static long find_frame_end(__u32 index, struct memprof_frame_end *end)
{
	__u64 code;

	if (memprof_walk_read(&code, sizeof(code), end->code + index) != 0)
		return 1;
	if ((code & 0xff80ffffffULL) == (RET_INSTRUCTION << 32 | ADD_TO_RSP_8))
		end->bytes = (code >> 24) & 0x7f;
	else if ((code & 0xff00000000ffffffULL) == (RET_INSTRUCTION << 56 | ADD_TO_RSP_32))
		end->bytes = (__u32)(code >> 24) & 0xffff;
	return end->bytes != 0;
}

struct memprof_frames_above {
	__u64 sp;
	__u64 pc;
	__u64 end;
	__u32 lead_past_end;
};

/* Follows one frame. A callback of bpf_loop. */
static long follow_frame_above(__u32 index, struct memprof_frames_above *frames)
{
	__u64 slot = memprof_find_slot(frames->pc);
	__u64 sp = frames->sp + (slot & 0xFFFCu);

	(void)index;
	/* A frame that ends at the note returns from the noted call, and would be its caller. */
	if (slot == 0 || MEMPROF_SLOT_FRAME_SIZE(slot) == MEMPROF_CHUNK_BOTTOM ||
	    sp <= frames->sp || sp == frames->end ||
	    (sp < frames->end && memprof_walk_read(&frames->pc, sizeof(frames->pc), sp - 8) != 0)) {
		frames->lead_past_end = 0;
		return 1;
	}
	frames->sp = sp;
	return sp > frames->end;
}

/* True if the word at this address, a return from a call without a note, may be live. Each
 * exception handler occupies two more words. */
static __always_inline bool may_be_live(__u64 address, __u64 word, __u64 end)
{
	struct memprof_frame_end function = {word, 0};
	__u32 handlers;

	bpf_loop(FRAME_END_MAX_BYTES, find_frame_end, &function, 0);
	if (function.bytes == 0)
		return true;
	for (handlers = 0; handlers < MAX_HANDLERS; handlers++) {
		struct memprof_frames_above frames = {
			.sp = address + 16 + function.bytes + 16 * handlers,
			.end = end,
			.lead_past_end = 1,
		};

		if (memprof_walk_read(&frames.pc, sizeof(frames.pc), frames.sp - 8) != 0)
			continue;
		bpf_loop(C_SEARCH_MAX_FRAMES, follow_frame_above, &frames, 0);
		if (frames.lead_past_end)
			return true;
	}
	return false;
}

/* A callback of bpf_loop: 1 ends the loop. */
static long find_noalloc_call(__u32 index, struct memprof_c_search *search)
{
	__u64 address = search->from + 8ULL * index;
	__u8 instruction;
	__u64 word;

	if (memprof_read_stack_word(search->walk, address, &word) != 0)
		return 1; /* the end of the stack */
	if (!in_range(word, c_call_begin, c_call_end) ||
	    memprof_walk_read(&instruction, 1, word - 5) != 0 || instruction != CALL_INSTRUCTION ||
	    memprof_find_slot(word) != 0)
		return 0;
	search->found = !search->callbacks_are_over ||
			++search->candidates > C_SEARCH_MAX_CANDIDATES ||
			may_be_live(address, word, search->end);
	return search->found;
}

/* True if no callback to OCaml that C code above this place on the stack has made is running. */
static __always_inline bool callbacks_are_over(__u64 end)
{
	__u64 handler;

	return memprof_walk_read(&handler, sizeof(handler),
				 domain_state_address + EXCEPTION_POINTER) == 0 &&
	       handler >= end;
}

/* True if C code between sp and the noted call may have been called without a note. is_now: the
 * note is the runtime's current one. */
static __always_inline bool is_called_without_note(struct memprof_walk *walk, __u64 sp, __u64 end,
						   bool is_now)
{
	struct memprof_c_search search = {.walk = walk, .from = sp, .end = end};
	__u64 words = (end - sp) >> 3;

	if (words > C_SEARCH_MAX_WORDS)
		return true;
	search.callbacks_are_over = is_now && callbacks_are_over(end);
	bpf_loop((__u32)words, find_noalloc_call, &search, 0);
	return search.found != 0;
}

/* Finds the start of the walk; returns -1 and the reason if it is not certain. */
static __always_inline long find_c_caller4(struct memprof_walk *walk,
					   const struct memprof_c_event *event, __u64 sp,
					   __u32 *reason)
{
	__u64 note[2] = {event->note[0], event->note[1]}; /* bottom_of_stack, last_return_address */
	__u64 thread = event->thread_pointer, below;
	bool is_now = note[0] == 0;

	*reason = MEMPROF_DROP_C_NO_RECORD;
	if (is_now && memprof_walk_read(note, sizeof(note), bottom_of_stack_address) != 0)
		return -1;
	/* A thread's pointer lies at the top of its stack, except for the first thread. */
	if (note[0] <= sp || note[0] - sp >= C_STACK_MAX_BYTES ||
	    (thread > sp && note[0] > thread)) {
		*reason = MEMPROF_DROP_C_NO_LOCK;
		return -1;
	}
	if (memprof_walk_read(&below, sizeof(below), note[0] - 8) != 0 || below != note[1] ||
	    is_called_without_note(walk, (sp + 7) & ~7ULL, note[0], is_now))
		return -1;
	walk->sp = note[0];
	walk->pc = note[1];
	return 0;
}

static __always_inline long find_c_caller5(struct memprof_walk *walk,
					   const struct memprof_c_event *event, __u32 *reason)
{
	__u64 state = event->domain_state, link = event->note[0], below, stack;

	*reason = MEMPROF_DROP_C_NO_LOCK;
	if (state == 0 && link == 0)
		return -1;
	*reason = MEMPROF_DROP_C_NO_RECORD;
	if (c_stack_offset == 0 ||
	    (state != 0 && memprof_walk_read(&link, sizeof(link), state + c_stack_offset) != 0) ||
	    memprof_walk_read(&below, sizeof(below), link - 8) != 0 ||
	    !in_range(below, c_call_begin, c_call_end) ||
	    memprof_walk_read(&stack, sizeof(stack), link) != 0)
		return -1;
	return memprof_enter_fiber(walk, stack) == 0 ? 0 : -1;
}

/* Sends the stack and returns its id, or 0. */
static __always_inline __u64 send_c_stack(const struct memprof_c_event *event, __u64 sp, __u32 tid)
{
	struct memprof_scratch *slot = take_scratch();
	struct memprof_capture *capture;
	__u32 reason = MEMPROF_DROP_C_STACK_LOST;
	__u64 id = 0;
	long found;

	if (!slot) {
		count_drop(reason);
		return 0;
	}
	capture = (struct memprof_capture *)slot->event;
	memprof_start_walk(&slot->walk, -1);
	found = fiber_stacks ? find_c_caller5(&slot->walk, event, &reason)
			     : find_c_caller4(&slot->walk, event, sp, &reason);
	if (found == 0) {
		memprof_walk_on(slot, -1);
		capture->flags |= MEMPROF_CAPTURE_OF_C;
		id = capture->stack_id;
		/* A walk that does not reach the end was not on the current stack. */
		if (capture->flags & MEMPROF_CAPTURE_BROKEN) {
			reason = MEMPROF_DROP_C_NO_RECORD;
			id = 0;
		} else if (!send_stack(slot, tid)) {
			reason = MEMPROF_DROP_C_STACK_LOST;
			id = 0;
		}
	}
	if (id == 0)
		count_drop(reason);
	give_scratch(slot);
	return id;
}

static __always_inline void send_native_block(struct pt_regs *ctx,
					      const struct memprof_c_event *event, __u64 stack_id,
					      __u32 tid)
{
	struct memprof_c_block block = {};

	fill_header(&block.header, MEMPROF_EVENT_C_BLOCK, tid);
	block.stack_id = stack_id;
	block.id = event->id;
	block.bytes = event->bytes;
	block.n_samples = event->n_samples;
	block.generation = event->generation;
	block.lost = c_events_lost;
	block.address = PT_REGS_PARM1(ctx);
	if (bpf_ringbuf_output(&events, &block, sizeof(block), wakeup_flags()) != 0)
		lose_c_event();
	else
		count_done(MEMPROF_COUNT_C_EVENTS);
}

static __always_inline bool read_c_event(struct pt_regs *ctx, struct memprof_c_event *event)
{
	if (memprof_walk_read(event, sizeof(*event), PT_REGS_PARM4(ctx)) == 0)
		return true;
	lose_c_event();
	return false;
}

/* At memprof_c_alloc_probe(block, bytes, weight, event). */
SEC("uprobe")
int c_allocated(struct pt_regs *ctx)
{
	struct memprof_c_event event;
	__u32 tid = target_tid();

	if (tid != 0 && read_c_event(ctx, &event))
		send_native_block(ctx, &event, send_c_stack(&event, PT_REGS_SP(ctx), tid), tid);
	return 0;
}

/* At memprof_c_free_probe(block, 0, 0, event). */
SEC("uprobe")
int c_freed(struct pt_regs *ctx)
{
	struct memprof_c_event event;
	__u32 tid = target_tid();

	if (tid != 0 && read_c_event(ctx, &event))
		send_native_block(ctx, &event, 0, tid);
	return 0;
}

#endif
