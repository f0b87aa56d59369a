/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The OCaml stack walk: begins where the runtime keeps the top of the stack, and produces a list of
 * return addresses; it needs only the program's own frame sizes. The same source runs in the kernel
 * and, for tests, on the host.
 *
 * A worked example for OCaml 4. f allocates; it was called by g, g by the C function c, c by
 * h. Addresses grow downwards in the picture; the numbers are frame sizes.
 *
 *     bottom_of_stack ->  +----------------+   pc = last_return_address (in f)
 *                         | f's frame   32 |   record pc, sp += 32
 *                         | return into g  |   pc = *(sp - 8)
 *                         +----------------+
 *                         | g's frame   16 |   record pc, sp += 16
 *                         | return to stub |   pc = *(sp - 8): caml_start_program,
 *                         +----------------+   size 0xFFFF = bottom of a chunk
 *                         | handler     16 |
 *                         | link.bottom ---|-> sp of the next chunk, null = the end
 *                         | link.retaddr   |   pc of the next chunk (in h)
 *                         +----------------+
 *                         | C frames of c  |   skipped
 *                         +----------------+
 *                         | h's frame ...  |
 *
 * gives [in f, in g, in h, ...]. Only regular frames are recorded.
 *
 * In OCaml 5 each fiber has a stack, and C runs on another one, so that a chunk's
 * bottom is followed by the next chunk, or by the fiber's end and then its parent:
 *
 *     stack_info: sp ->    | return into f  |   pc, sp += 8
 *     exception pointer    +----------------+
 *     handler --------.    | f's frame ...  |
 *                     |    | chunk bottom   |   pc's size is 0xFFFF: sp += 32
 *                     |    | return into g  |   not the handler: pc, sp += 8
 *                     |    +----------------+
 *                     |    | g's frame ...  |
 *                     |    | chunk bottom   |   sp += 32 is the handler:
 *                     '--> | three closures |
 *                          | parent --------|-> stack_info of the parent, null = the end
 *
 * (See OCaml's runtime/caml/fiber.h and stack.h. The layout is different with frame pointers.)
 *
 * The target's memory is untrusted. Every step costs at most one table look-up
 * and two bounded reads, steps are capped, sp must grow inside a chunk; a cycle
 * over chunks therefore ends at a cap. The entries always expand to exactly
 * n_frames addresses, whatever cut the walk short.
 *
 * The includer supplies, before including:
 *   static long memprof_walk_read(void *to, __u32 bytes, __u64 address);
 *       returns 0 if all bytes of the target's memory at address were read
 *   static const __u64 *memprof_walk_slot(__u32 index);
 *       slot of the frame table (events.h), linear probing; null = out of range
 *   table_bits, max_frames, entry_room
 *       1 << table_bits slots, bits 1..31; frames to record, 1..MEMPROF_MAX_FRAMES; entries for
 *       which a workspace has room, 1..MEMPROF_MAX_STACK_ENTRIES
 *   fiber_stacks
 *       true if the stacks are those of OCaml 5
 */
#ifndef MEMPROF_FRAMETABLE_WALK_BPF_H
#define MEMPROF_FRAMETABLE_WALK_BPF_H

#include "events.h"

#define MEMPROF_CHUNK_WORDS 64u /* stack words fetched by one read */

/* frame_size of the frame that caml_start_program pushed; the callback link
 * is this many bytes above its sp. */
#define MEMPROF_CHUNK_BOTTOM 0xFFFFu
#define MEMPROF_CALLBACK_LINK 16u
/* OCaml 5: size of a chunk's bottom; offset of the parent in a fiber's handler. */
#define MEMPROF_FIBER_BOTTOM 32u
#define MEMPROF_FIBER_PARENT 24u

struct memprof_walk {
	__u64 pc;
	__u64 sp;
	__u64 handler; /* OCaml 5: the end of the fiber's stack */
	__u64 hash;
	__u64 last;	     /* address recorded last, 0 at the start */
	__u64 words_address; /* where words[] was read */
	__u32 words_bytes;   /* how much of it is valid */
	__u32 run;	     /* repetitions of last not yet written as an entry */
	__u32 n_frames;
	__u32 n_entries;
	__u32 flags; /* enum memprof_capture_flags */
	__u32 done;
	__u64 words[MEMPROF_CHUNK_WORDS];
};

#define MEMPROF_CAPTURE_WORDS (sizeof(struct memprof_capture) / sizeof(__u64))

/* Workspace of one capture; too large for the BPF stack. In the kernel it ends after
 * entry_room entries. */
struct memprof_scratch {
	__u32 busy;
	__u32 reserved;
	struct memprof_walk walk;
	/* struct memprof_capture and its entries, as they are sent */
	__u64 event[MEMPROF_CAPTURE_WORDS + MEMPROF_MAX_STACK_ENTRIES];
};

struct memprof_walk_context {
	struct memprof_scratch *scratch;
};

static inline __u64 memprof_hash_add(__u64 hash, __u64 entry)
{
	hash = (hash ^ entry) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 32);
}

/* Never 0. */
static inline __u64 memprof_hash_final(__u64 hash)
{
	hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdULL;
	hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53ULL;
	hash ^= hash >> 33;
	if (hash == 0)
		return 1;
	return hash;
}

/* The slot of a return address; 0 if it is in no table. */
static inline __u64 memprof_find_slot(__u64 pc)
{
	__u32 mask = (1u << table_bits) - 1;
	__u32 home, i;

	if (pc == 0 || pc >> 48)
		return 0;
	home = memprof_slot_home(pc, table_bits);
	for (i = 0; i < MEMPROF_MAX_PROBES; i++) {
		const __u64 *slot = memprof_walk_slot((home + i) & mask);
		__u64 value;

		if (!slot)
			return 0;
		value = *(const volatile __u64 *)slot;
		if (value == 0)
			return 0;
		if (MEMPROF_SLOT_RETADDR(value) == pc)
			return value;
	}
	return 0;
}

/* Returns 0 if the word was read. A failed read of a whole chunk is not an error: the stack may end
 * within it. */
static inline long memprof_read_stack_word(struct memprof_walk *walk, __u64 address, __u64 *word)
{
	if (address & 7)
		return -1;
	if (address - walk->words_address >= walk->words_bytes) {
		walk->words_bytes = 0;
		if (memprof_walk_read(walk->words, sizeof(walk->words), address) != 0)
			return memprof_walk_read(word, sizeof(*word), address);
		walk->words_address = address;
		walk->words_bytes = sizeof(walk->words);
	}
	*word = walk->words[((address - walk->words_address) >> 3) & (MEMPROF_CHUNK_WORDS - 1)];
	return 0;
}

/* Returns 0 if there is no room left. */
static inline int memprof_push_entry(struct memprof_scratch *scratch, __u64 entry)
{
	__u32 n = scratch->walk.n_entries;

	if (n >= entry_room)
		return 0;
	scratch->event[MEMPROF_CAPTURE_WORDS + n] = entry;
	scratch->walk.n_entries = n + 1;
	scratch->walk.hash = memprof_hash_add(scratch->walk.hash, entry);
	return 1;
}

/* Returns 0 if there is no room left; the run's frames then count as missing. */
static inline int memprof_flush_run(struct memprof_scratch *scratch)
{
	struct memprof_walk *walk = &scratch->walk;
	__u32 run = walk->run;

	if (run == 0)
		return 1;
	walk->run = 0;
	if (memprof_push_entry(scratch, MEMPROF_RUN_MARK | run))
		return 1;
	walk->n_frames -= run;
	return 0;
}

/* Returns 0 if there is no room left. */
static inline int memprof_record_frame(struct memprof_scratch *scratch, __u64 pc)
{
	struct memprof_walk *walk = &scratch->walk;

	if (pc == walk->last) {
		walk->run++;
	} else {
		if (!memprof_flush_run(scratch) || !memprof_push_entry(scratch, pc))
			return 0;
		walk->last = pc;
	}
	walk->n_frames++;
	return 1;
}

/* Returns the value that ends the loop. */
static inline long memprof_end_walk(struct memprof_walk *walk, __u32 flags)
{
	walk->flags |= flags;
	walk->done = 1;
	return 1;
}

static inline long memprof_next_chunk(struct memprof_walk *walk)
{
	__u64 link[2]; /* bottom_of_stack, last_return_address */

	if (memprof_walk_read(link, sizeof(link), walk->sp + MEMPROF_CALLBACK_LINK) != 0)
		return memprof_end_walk(walk, MEMPROF_CAPTURE_BROKEN);
	if (link[0] == 0)
		return memprof_end_walk(walk, 0);
	walk->sp = link[0];
	walk->pc = link[1];
	return 0;
}

/* stack: the address of a stack_info. */
static inline long memprof_enter_fiber(struct memprof_walk *walk, __u64 stack)
{
	__u64 info[3]; /* sp, exception pointer, handler */

	if (memprof_walk_read(info, sizeof(info), stack) != 0 ||
	    memprof_walk_read(&walk->pc, sizeof(walk->pc), info[0]) != 0)
		return memprof_end_walk(walk, MEMPROF_CAPTURE_BROKEN);
	walk->sp = info[0] + 8;
	walk->handler = info[2];
	return 0;
}

static inline long memprof_parent_fiber(struct memprof_walk *walk)
{
	__u64 parent;

	if (memprof_walk_read(&parent, sizeof(parent), walk->handler + MEMPROF_FIBER_PARENT) != 0)
		return memprof_end_walk(walk, MEMPROF_CAPTURE_BROKEN);
	if (parent == 0)
		return memprof_end_walk(walk, 0);
	return memprof_enter_fiber(walk, parent);
}

static inline long memprof_next_fiber_chunk(struct memprof_walk *walk)
{
	__u64 sp = walk->sp + MEMPROF_FIBER_BOTTOM;

	if (sp == walk->handler)
		return memprof_parent_fiber(walk);
	if (memprof_walk_read(&walk->pc, sizeof(walk->pc), sp) != 0)
		return memprof_end_walk(walk, MEMPROF_CAPTURE_BROKEN);
	walk->sp = sp + 8;
	return 0;
}

/* Walks one frame or one chunk bottom. A callback of bpf_loop: 1 ends the loop. */
static long memprof_walk_step(__u32 index, struct memprof_walk_context *context)
{
	struct memprof_scratch *scratch = context->scratch;
	struct memprof_walk *walk = &scratch->walk;
	__u64 slot = memprof_find_slot(walk->pc);
	__u64 sp, pc;

	(void)index;
	/* The runtime's own walk ends here silently. */
	if (slot == 0)
		return memprof_end_walk(walk, MEMPROF_CAPTURE_BROKEN);
	if (MEMPROF_SLOT_FRAME_SIZE(slot) == MEMPROF_CHUNK_BOTTOM)
		return fiber_stacks ? memprof_next_fiber_chunk(walk) : memprof_next_chunk(walk);
	if (walk->n_frames >= max_frames || !memprof_record_frame(scratch, walk->pc))
		return memprof_end_walk(walk, MEMPROF_CAPTURE_TRUNCATED);

	sp = walk->sp + (slot & 0xFFFCu);
	if (sp <= walk->sp || memprof_read_stack_word(walk, sp - 8, &pc) != 0)
		return memprof_end_walk(walk, MEMPROF_CAPTURE_BROKEN);
	walk->sp = sp;
	walk->pc = pc;
	return 0;
}

#ifdef __bpf__
#define memprof_walk_loop(n, step, context) bpf_loop(n, step, context, 0)
#else
static inline void memprof_walk_loop(__u32 n, long (*step)(__u32, struct memprof_walk_context *),
				     struct memprof_walk_context *context)
{
	__u32 i;

	for (i = 0; i < n; i++)
		if (step(i, context) != 0)
			break;
}
#endif

static inline void memprof_start_walk(struct memprof_walk *walk, __s32 alloc_idx)
{
	walk->hash = memprof_hash_add(0, (__u32)alloc_idx + 1ULL);
	walk->last = 0;
	walk->words_address = 0;
	walk->words_bytes = 0;
	walk->run = 0;
	walk->n_frames = 0;
	walk->n_entries = 0;
	walk->flags = 0;
	walk->done = 0;
}

/* Finds the start of the walk; -1 if it is unreadable. */
static inline long memprof_find_top(struct memprof_walk *walk, __u64 top)
{
	__u64 state[2]; /* bottom_of_stack, last_return_address */

	if (fiber_stacks)
		return memprof_enter_fiber(walk, top) == 0 ? 0 : -1;
	if (memprof_walk_read(state, sizeof(state), top) != 0)
		return -1;
	walk->sp = state[0];
	walk->pc = state[1];
	return 0;
}

/* Continues the walk: fills in entries, and stack_id, alloc_idx, flags, n_frames and n_entries of
 * the event. */
static inline void memprof_walk_on(struct memprof_scratch *scratch, __s32 alloc_idx)
{
	struct memprof_walk_context context = {scratch};
	struct memprof_capture *capture = (struct memprof_capture *)scratch->event;
	struct memprof_walk *walk = &scratch->walk;

	/* Null: this thread has not entered OCaml code yet. A real chunk holds at
	 * least one frame, so that two steps a frame are enough. */
	if (walk->sp != 0) {
		memprof_walk_loop(2 * max_frames + 2, memprof_walk_step, &context);
		if (!walk->done || !memprof_flush_run(scratch))
			walk->flags |= MEMPROF_CAPTURE_TRUNCATED;
	}
	capture->stack_id = memprof_hash_final(walk->hash);
	capture->alloc_idx = alloc_idx;
	capture->flags = walk->flags;
	capture->n_frames = walk->n_frames;
	capture->n_entries = walk->n_entries;
}

/* Walks the stack. top: in OCaml 4 the address of the domain state's bottom_of_stack, which
 * last_return_address follows; in OCaml 5 the current stack_info. Returns -1 if the top is
 * unreadable. */
static inline long memprof_walk_stack(struct memprof_scratch *scratch, __u64 top, __s32 alloc_idx)
{
	memprof_start_walk(&scratch->walk, alloc_idx);
	if (memprof_find_top(&scratch->walk, top) != 0)
		return -1;
	memprof_walk_on(scratch, alloc_idx);
	return 0;
}

#endif
