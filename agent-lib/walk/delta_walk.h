/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the OCaml 4 stack of this thread, reading only what has changed since the last walk.
 *
 * The state of the runtime's own walk (caml_next_frame_descriptor), (sp, pc), and the words that it
 * reads determine the rest of the walk. So our walk remembers each of its states with the address
 * of the word from which it read pc, and the words of the links between chunks of the stack. If the
 * next walk reaches a remembered state, and all words that were read from there on are unchanged,
 * the rest of the stack is unchanged too, whatever returned, raised, or ran there meanwhile.
 *
 *   main -> g -> f samples, f returns, g calls h, h calls k, which samples:
 *
 *     remembered     outermost  | 7fa8 main | 7f68 g | 7f48 f |
 *     state          (7f38, k)  f, at 7f48, is further out than k's word at 7f30: not dropped,
 *                               and no state of it is (7f30, k): k is new
 *                    (7f58, h)  its word is at 7f50: f is dropped, h is new
 *                    (7f70, g)  remembered; the words at 7fa8 and beyond are compared: the same
 *     remembered     outermost  | 7fa8 main | 7f68 g | 7f50 h | 7f30 k |
 *                               `-- kept, verified ---'`-- walked ---'
 *
 * If a word is found to have changed, the slots between it and the state that was met are still
 * correct, and the walk continues from there. It never continues from a link: a link belongs to the
 * previous frame, the bottom of a chunk, from which it is read again.
 *
 * Words are read in the order of a walk. The words before a word prove that its address is on the
 * stack; words are read ahead only in the page of such a word. So no stack is read that was
 * unmapped meanwhile. MEMPROF_STACK_SLOTS limits all work. A remembered stack is not tied to a
 * thread: on another thread's stack, either no state is met, or the same words lead to the same
 * frames.
 */
#ifndef MEMPROF_DELTA_WALK_H
#define MEMPROF_DELTA_WALK_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "frame_table.h"

#define MEMPROF_STACK_SLOTS 16384u
#define MEMPROF_SIZE_CACHE 1024u

#define MEMPROF_SLOT_FRAME 0u
#define MEMPROF_SLOT_BOTTOM 1u /* bottom of a chunk; not reported as a frame */
#define MEMPROF_SLOT_LINK 2u   /* a word that leads from a chunk's bottom to the next chunk */
/* OCaml 5, links too (fiber_walk.h): to a fiber's parent; its sp, where it is entered. */
#define MEMPROF_SLOT_PARENT 3u
#define MEMPROF_SLOT_ENTRY 4u
#define MEMPROF_SLOT_KINDS UINT64_C(7)

struct memprof_stack_slot {
	uint64_t place; /* address of the word, with its kind in the low bits */
	uint64_t word;	/* of frames and bottoms: the return address */
};

struct memprof_known_size {
	uint64_t return_address;
	uint64_t frame_size;
};

struct memprof_stack {
	struct memprof_frame_table table; /* the table that it was walked with */
	uint32_t count;
	uint32_t kept;	     /* outermost slots of the previous walk that the last one kept */
	uint32_t unfinished; /* the next walk may continue where the last one ended */
	uint64_t fiber;	     /* OCaml 5: the innermost fiber, and the end of its stack */
	uint64_t fiber_end;
	struct memprof_known_size sizes[MEMPROF_SIZE_CACHE];
	struct memprof_stack_slot slots[MEMPROF_STACK_SLOTS]; /* outermost first */
	uint64_t walks;		      /* walks that ended whole or unknown */
	uint32_t frames, frames_kept; /* among all slots, among the kept ones */
	uint32_t other_count;
	uint16_t others[MEMPROF_STACK_SLOTS]; /* slots that are no frames, outermost first */
};
static_assert(MEMPROF_STACK_SLOTS <= UINT16_MAX, "others has their numbers");

enum memprof_walk_end {
	MEMPROF_WALK_WHOLE,
	MEMPROF_WALK_UNKNOWN,  /* ends, like the runtime's, at a frame that has no descriptor */
	MEMPROF_WALK_TOO_DEEP, /* the stack has more slots; nothing is remembered */
	MEMPROF_WALK_BROKEN,   /* the stack does not grow outward; nothing is remembered */
};

/* The state of a walk: slots [0, kept) may still be met, [top, MEMPROF_STACK_SLOTS) are done. */
struct memprof_walk {
	uint64_t sp, pc;
	uint32_t kept, top;
};

static inline uint64_t memprof_slot_address(const struct memprof_stack_slot *slot)
{
	return slot->place & ~MEMPROF_SLOT_KINDS;
}

static inline uint64_t memprof_slot_kind(const struct memprof_stack_slot *slot)
{
	return slot->place & MEMPROF_SLOT_KINDS;
}

/* ------------------------------------------------------------------ frames */

/* Returns the descriptor's frame_size; 0 if there is none. Failures are not cached, because the
 * program may load the code later. */
static inline uint64_t memprof_frame_size(struct memprof_stack *stack, uint64_t return_address)
{
	struct memprof_known_size *known =
		&stack->sizes[(return_address ^ return_address >> 10) % MEMPROF_SIZE_CACHE];
	const struct memprof_descriptor *descriptor;

	if (known->return_address == return_address)
		return known->frame_size;
	descriptor = memprof_find_descriptor(&stack->table, return_address);
	if (!descriptor)
		return 0;
	known->return_address = return_address;
	known->frame_size = descriptor->frame_size;
	return known->frame_size;
}

static inline void memprof_forget_stack(struct memprof_stack *stack)
{
	stack->count = 0;
	stack->kept = 0;
}

/* After code was unloaded, cached sizes are wrong for other code at its addresses. A program that
 * loads or unloads code changes the table, so the cache is emptied then. */
static inline void memprof_use_table(struct memprof_stack *stack,
				     const struct memprof_frame_table *table)
{
	if (stack->table.slots == table->slots && stack->table.mask == table->mask)
		return;
	memprof_forget_stack(stack);
	memset(stack->sizes, 0, sizeof stack->sizes);
	stack->table = *table;
}

/* ------------------------------------------------------------------ verifying */

static inline int memprof_slot_changed(const struct memprof_stack_slot *slot)
{
	return memprof_stack_word(memprof_slot_address(slot)) != slot->word;
}

/* True if the 8 slots from this one outward, all in its page, are unchanged. */
static inline int memprof_eight_same(const struct memprof_stack_slot *slots, uint32_t from)
{
	uint64_t changed = 0;

	if (from < 7 || (slots[from].place ^ slots[from - 7].place) >> 12 != 0)
		return 0;
	for (uint32_t i = 0; i < 8; i++) {
		const struct memprof_stack_slot *slot = &slots[from - i];

		changed |= memprof_stack_word(memprof_slot_address(slot)) ^ slot->word;
	}
	return changed == 0;
}

/* Drops slots from the one before `end` outward, up to and including the first changed one. Returns
 * the number of outermost slots that remain; -1 if none has changed. */
static inline int64_t memprof_first_changed(const struct memprof_stack_slot *slots, uint32_t end)
{
	while (end > 0) {
		if (memprof_eight_same(slots, end - 1)) {
			end -= 8;
			continue;
		}
		for (int i = 0; i < 8 && end > 0; i++, end--) {
			if (memprof_slot_changed(&slots[end - 1]))
				return (int64_t)end - 1;
		}
	}
	return -1;
}

/* ------------------------------------------------------------------ walking */

static inline int memprof_walk_push(struct memprof_stack *stack, struct memprof_walk *walk,
				    uint64_t place, uint64_t word)
{
	if (walk->top == walk->kept)
		return 0;
	walk->top--;
	stack->slots[walk->top].place = place;
	stack->slots[walk->top].word = word;
	return 1;
}

/* Drops slots further in than the state. Returns true if the state is remembered. */
static inline int memprof_walk_met(const struct memprof_stack *stack, struct memprof_walk *walk)
{
	const struct memprof_stack_slot *slot;

	while (walk->kept > 0 && memprof_slot_address(&stack->slots[walk->kept - 1]) < walk->sp - 8)
		walk->kept--;
	if (walk->kept == 0)
		return 0;
	slot = &stack->slots[walk->kept - 1];
	return memprof_slot_address(slot) == walk->sp - 8 && slot->word == walk->pc &&
	       memprof_slot_kind(slot) != MEMPROF_SLOT_LINK;
}

/* Slots from `changed` on are outdated. Those further in are right, and the walk continues from
 * their outermost state. */
static inline void memprof_walk_resume(struct memprof_stack *stack, struct memprof_walk *walk,
				       uint32_t changed)
{
	uint32_t first = changed + 1, moved;

	while (memprof_slot_kind(&stack->slots[first]) >= MEMPROF_SLOT_LINK)
		first++; /* ends at the state that was met, at the latest */
	moved = walk->kept - first;
	walk->sp = memprof_slot_address(&stack->slots[first]) + 8;
	walk->pc = stack->slots[first].word;
	walk->top -= moved;
	memmove(&stack->slots[walk->top], &stack->slots[first], moved * sizeof *stack->slots);
	walk->kept = changed;
}

/* Goes to the next state; sp is 0 after the outermost one. */
static inline enum memprof_walk_end
memprof_walk_step(struct memprof_stack *stack, struct memprof_walk *walk, uint64_t frame_size)
{
	uint64_t before = walk->sp;

	if (frame_size != MEMPROF_CHUNK_BOTTOM) {
		walk->sp += frame_size & 0xfffc;
		if (walk->sp == before || walk->sp % 8 != 0)
			return MEMPROF_WALK_BROKEN;
		walk->pc = memprof_stack_word(walk->sp - 8);
		return MEMPROF_WALK_WHOLE;
	}
	/* Beyond the exception handler's two words: bottom_of_stack, last_retaddr. */
	walk->sp = memprof_stack_word(before + 16);
	walk->pc = memprof_stack_word(before + 24);
	if (!memprof_walk_push(stack, walk, (before + 16) | MEMPROF_SLOT_LINK, walk->sp) ||
	    !memprof_walk_push(stack, walk, (before + 24) | MEMPROF_SLOT_LINK, walk->pc))
		return MEMPROF_WALK_TOO_DEEP;
	if (walk->sp != 0 && (walk->sp <= before + 32 || walk->sp % 8 != 0))
		return MEMPROF_WALK_BROKEN;
	return MEMPROF_WALK_WHOLE;
}

/* Walks outward until a remembered and unchanged state is met, or to the end. */
static inline enum memprof_walk_end memprof_walk_on(struct memprof_stack *stack,
						    struct memprof_walk *walk)
{
	enum memprof_walk_end end = MEMPROF_WALK_WHOLE;

	while (walk->sp != 0 && end == MEMPROF_WALK_WHOLE) {
		int met = memprof_walk_met(stack, walk);
		uint64_t size, kind;

		if (met) {
			int64_t changed = memprof_first_changed(stack->slots, walk->kept - 1);

			if (changed < 0)
				return MEMPROF_WALK_WHOLE;
			memprof_walk_resume(stack, walk, (uint32_t)changed);
		}
		size = memprof_frame_size(stack, walk->pc);
		if (size == 0)
			return MEMPROF_WALK_UNKNOWN;
		kind = size == MEMPROF_CHUNK_BOTTOM ? MEMPROF_SLOT_BOTTOM : MEMPROF_SLOT_FRAME;
		if (!met && !memprof_walk_push(stack, walk, (walk->sp - 8) | kind, walk->pc))
			return MEMPROF_WALK_TOO_DEEP;
		end = memprof_walk_step(stack, walk, size);
	}
	if (walk->sp == 0)
		walk->kept = 0; /* the outermost chunk is new */
	return end;
}

/* After a walk: marks which of the new slots are frames. */
static inline void memprof_count_frames(struct memprof_stack *stack)
{
	while (stack->other_count > 0 && stack->others[stack->other_count - 1] >= stack->kept)
		stack->other_count--;
	stack->frames_kept = stack->kept - stack->other_count;
	for (uint32_t i = stack->kept; i < stack->count; i++) {
		if (memprof_slot_kind(&stack->slots[i]) != MEMPROF_SLOT_FRAME)
			stack->others[stack->other_count++] = (uint16_t)i;
	}
	stack->frames = stack->count - stack->other_count;
	stack->walks++;
}

/* Appends the walked slots to the kept ones. */
static inline void memprof_remember(struct memprof_stack *stack, const struct memprof_walk *walk)
{
	uint32_t walked = MEMPROF_STACK_SLOTS - walk->top;

	stack->kept = stack->unfinished ? 0 : walk->kept;
	memmove(&stack->slots[stack->kept], &stack->slots[walk->top],
		walked * sizeof *stack->slots);
	stack->count = stack->kept + walked;
	memprof_count_frames(stack);
}

/* Walks the stack whose innermost frame has returned to pc, with sp above the return address.
 * Afterwards slots contain all of it, unless it ended too deep or broken. */
static inline enum memprof_walk_end memprof_walk_stack(struct memprof_stack *stack,
						       const struct memprof_frame_table *table,
						       uint64_t sp, uint64_t pc)
{
	struct memprof_walk walk = {sp, pc, 0, MEMPROF_STACK_SLOTS};
	enum memprof_walk_end end;

	memprof_use_table(stack, table);
	walk.kept = stack->unfinished ? 0 : stack->count;
	end = memprof_walk_on(stack, &walk);
	if (end == MEMPROF_WALK_TOO_DEEP || end == MEMPROF_WALK_BROKEN) {
		memprof_forget_stack(stack);
		return end;
	}
	stack->unfinished = end == MEMPROF_WALK_UNKNOWN;
	memprof_remember(stack, &walk);
	return end;
}

#endif
