/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Observe mode: probes where an allocation finds no room in the minor heap, or where the runtime
 * pretends so to get control (young_limit); the program is not changed. OCaml code gets there
 * through caml_call_gc, C code through its own allocations. Both have stored the end of the OCaml
 * stack, and young_ptr, from which the request is already subtracted.
 *
 * Each hit sends the stack and the domain's counters. It stands for everything that was allocated
 * since the previous hit; the daemon computes that, because only it knows which hits arrived.
 */
#ifndef MEMPROF_OBSERVE_BPF_H
#define MEMPROF_OBSERVE_BPF_H

#define OBSERVED_FROM_OCAML 1u /* flag of the runtime */
#define OBSERVED_MAX_BLOCKS 255u

/* If a request has several blocks, their sizes are at `lengths`, one byte each: words - 1. */
struct observed_allocation {
	__u64 state;
	__u64 words; /* of all blocks, with the headers of all but one */
	__u64 lengths;
	__u32 flags;
	__u32 blocks;
};

struct observed_block {
	__u32 size_words;
	__s32 alloc_idx;
};

struct observed_choice {
	const __u8 *lengths;
	__u32 blocks;
	__u32 word; /* word of the request, headers included, to find */
	struct observed_block block;
};

static long choose_step(__u32 index, struct observed_choice *choice)
{
	__u32 size;

	if (index >= choice->blocks || index >= OBSERVED_MAX_BLOCKS)
		return 1;
	size = choice->lengths[index & 0xFF] + 1u;
	choice->block.alloc_idx = index;
	choice->block.size_words = size;
	if (choice->word <= size)
		return 1;
	choice->word -= size + 1;
	return 0;
}

/* Chooses one of the blocks that are allocated together, with a probability proportional to its
 * words. Uses the walk's chunk buffer before the walk does. */
static __always_inline struct observed_block
choose_block(struct memprof_walk *walk, const struct observed_allocation *allocation)
{
	struct observed_block block = {(__u32)allocation->words, -1};
	struct observed_choice choice = {.lengths = (const __u8 *)walk->words,
					 .blocks = allocation->blocks};

	if ((allocation->flags & OBSERVED_FROM_OCAML) == 0)
		return block;
	block.alloc_idx = 0;
	if (allocation->blocks <= 1 || allocation->blocks > OBSERVED_MAX_BLOCKS ||
	    allocation->words >> 20)
		return block;
	/* The lengths are followed by other frame descriptors. */
	if (memprof_walk_read(walk->words, 256, allocation->lengths) != 0)
		return block;
	choice.word = bpf_get_prandom_u32() % ((__u32)allocation->words + 1);
	bpf_loop(OBSERVED_MAX_BLOCKS, choose_step, &choice, 0);
	return choice.block;
}

/* Returns 0 if everything was read. */
static __always_inline long read_counters(struct memprof_observed *event, __u64 state)
{
	event->domain_state = state;
	if (memprof_walk_read(event->words, sizeof(event->words), state + stat_words_offset) != 0)
		return -1;
	if (memprof_walk_read(&event->young_ptr, 8, state + young_ptr_offset) != 0)
		return -1;
	if (memprof_walk_read(&event->young_limit, 8, state + young_limit_offset) != 0)
		return -1;
	if (fiber_stacks &&
	    memprof_walk_read(&event->domain, sizeof(event->domain), state + domain_id_offset) != 0)
		return -1;
	return memprof_walk_read(&event->young_end, 8, state + young_end_offset);
}

/* Sends the stack and returns its id, or 0. */
static __always_inline __u64 observe_stack(const struct observed_allocation *allocation, __u64 top,
					   __u32 tid, __u32 *size_words)
{
	struct memprof_scratch *slot = take_scratch();
	struct observed_block block;
	__u64 id = 0;

	if (!slot) {
		count_capture_drop(MEMPROF_DROP_CAPTURE_SCRATCH_BUSY);
		return 0;
	}
	block = choose_block(&slot->walk, allocation);
	*size_words = block.size_words;
	if (memprof_walk_stack(slot, top, block.alloc_idx) == 0) {
		id = ((struct memprof_capture *)slot->event)->stack_id;
		send_capture(slot, tid);
	} else {
		count_capture_drop(MEMPROF_DROP_CAPTURE_NO_STATE);
	}
	give_scratch(slot);
	return id;
}

/* top: start of the walk, see memprof_walk_stack(). */
static __always_inline int observe_allocation(const struct observed_allocation *allocation,
					      __u64 top)
{
	struct memprof_observed event = {};
	__u32 tid = target_tid();

	if (tid == 0)
		return 0;
	if (read_counters(&event, allocation->state) != 0) {
		count_drop(MEMPROF_DROP_OBSERVED_NO_STATE);
		return 0;
	}
	event.stack_id = observe_stack(allocation, top, tid, &event.size_words);
	fill_header(&event.header, MEMPROF_EVENT_OBSERVED, tid);
	if (bpf_ringbuf_output(&events, &event, sizeof(event), wakeup_flags()) != 0)
		count_drop(MEMPROF_DROP_OBSERVED_RING_FULL);
	else
		count_done(MEMPROF_COUNT_OBSERVED);
	return 0;
}

#endif
