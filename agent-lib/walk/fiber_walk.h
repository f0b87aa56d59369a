/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the OCaml 5 stack of a thread, reading only what has changed since the last walk; see
 * delta_walk.h.
 *
 * The state of the runtime's own walk (get_callstack of runtime/backtrace_nat.c) is (fiber, sp,
 * pc). Each fiber has a stack of its own, so addresses grow outward only within one fiber:
 *
 *   f, in fiber B, samples; B's parent is A, whose parent is the thread's first stack.
 *
 *     outermost  | 0 | main, in .. | A's links, A's bottom, g .. | B's links, B's bottom, f |
 *                 parent of the thread's stack: none
 *
 *   links of a fiber    (end + 24, parent)    the way out of it
 *                       (parent + 16, its end)
 *                       (parent, its sp)      where the parent continues: its ENTRY
 *
 * (See runtime/caml/fiber.h; the end of a fiber is its handler.) When the walk enters a fiber, it
 * searches for that fiber among the remembered ones and drops everything further in. It uses the
 * fiber's slots only if the fiber's end is unchanged, because a new stack may have the same
 * address.
 *
 * While a callback runs, the runtime hides the parent of the innermost fiber. The caller passes the
 * parent, which is compared with the remembered one, never with memory.
 */
#ifndef MEMPROF_FIBER_WALK_H
#define MEMPROF_FIBER_WALK_H

#include "delta_walk.h"

#define MEMPROF_FIBER_SP 0u
#define MEMPROF_FIBER_END 16u
#define MEMPROF_FIBER_PARENT 24u /* above the end */
#define MEMPROF_BOTTOM_BYTES 32u

/* The start of a walk. */
struct memprof_fiber_begin {
	uint64_t fiber, end, parent;
	uint64_t sp, pc; /* sp: above the return address; pc: that address */
};

/* A walk over fibers: the current fiber and where its slots begin, and the fiber of the innermost
 * slot of [0, walk.kept). */
struct memprof_fiber_walk {
	struct memprof_walk walk;
	const struct memprof_fiber_begin *begin;
	uint64_t fiber, end;
	uint32_t first;
	uint32_t unknown; /* a frame without a descriptor was met */
	uint64_t rest_fiber, rest_end;
};

/* ------------------------------------------------------------------ remembered fibers */

static inline int memprof_is_entry(const struct memprof_stack *stack, uint32_t slot)
{
	return memprof_slot_kind(&stack->slots[slot]) == MEMPROF_SLOT_ENTRY;
}

/* Index of the first slot of the fiber to which the slot before `end` belongs. */
static inline uint32_t memprof_fiber_first(const struct memprof_stack *stack, uint32_t end)
{
	for (uint32_t i = stack->other_count; i-- > 0;) {
		if (stack->others[i] < end && memprof_is_entry(stack, stack->others[i]))
			return stack->others[i] + 2u; /* its sp, its end */
	}
	return 0;
}

/* The outermost entry in [from, to); `to` if there is none. */
static inline uint32_t memprof_next_entry(const struct memprof_stack *stack, uint32_t from,
					  uint32_t to)
{
	uint32_t found = to;

	for (uint32_t i = stack->other_count; i-- > 0 && stack->others[i] >= from;) {
		if (stack->others[i] < to && memprof_is_entry(stack, stack->others[i]))
			found = stack->others[i];
	}
	return found;
}

/* Called when the walk reaches a fiber. */
static inline void memprof_enter_fiber(const struct memprof_stack *stack,
				       struct memprof_fiber_walk *at, uint64_t fiber, uint64_t end)
{
	struct memprof_walk *walk = &at->walk;

	at->fiber = fiber;
	at->end = end;
	if (fiber == at->rest_fiber && end == at->rest_end) {
		at->first = memprof_fiber_first(stack, walk->kept);
		return;
	}
	at->first = walk->kept;
	for (uint32_t i = stack->other_count; i-- > 0;) {
		uint32_t slot = stack->others[i];

		if (slot >= walk->kept || !memprof_is_entry(stack, slot) ||
		    memprof_slot_address(&stack->slots[slot]) != fiber)
			continue;
		if (stack->slots[slot + 1].word != end)
			return;
		walk->kept = slot;
		at->rest_fiber = fiber;
		at->rest_end = end;
		at->first = memprof_fiber_first(stack, slot);
		return;
	}
}

/* ------------------------------------------------------------------ verifying */

static inline int memprof_fiber_slot_changed(const struct memprof_fiber_walk *at,
					     const struct memprof_stack_slot *slot)
{
	if (slot->place == ((at->begin->end + MEMPROF_FIBER_PARENT) | MEMPROF_SLOT_PARENT))
		return slot->word != at->begin->parent;
	return memprof_slot_changed(slot);
}

/* memprof_first_changed for frames only, in [from, end). */
static inline int64_t memprof_first_changed_frame(const struct memprof_stack_slot *slots,
						  uint32_t from, uint32_t end)
{
	while (end > from) {
		if (end - from >= 8 && memprof_eight_same(slots, end - 1)) {
			end -= 8;
			continue;
		}
		for (int i = 0; i < 8 && end > from; i++, end--) {
			if (memprof_slot_changed(&slots[end - 1]))
				return (int64_t)end - 1;
		}
	}
	return -1;
}

/* Drops slots from the one before `end` outward, up to and including the first changed one. Returns
 * the number of outermost slots that remain; -1 if none has changed. */
static inline int64_t memprof_first_changed_of_fibers(const struct memprof_stack *stack,
						      const struct memprof_fiber_walk *at,
						      uint32_t end)
{
	uint32_t other = stack->other_count;

	while (other > 0 && stack->others[other - 1] >= end)
		other--;
	while (end > 0) {
		uint32_t from = other > 0 ? stack->others[other - 1] + 1u : 0;
		int64_t changed = memprof_first_changed_frame(stack->slots, from, end);

		if (changed >= 0)
			return changed;
		if (other == 0)
			return -1;
		end = stack->others[--other];
		if (memprof_fiber_slot_changed(at, &stack->slots[end]))
			return end;
	}
	return -1;
}

/* ------------------------------------------------------------------ walking */

/* Overwrites remembered slots if there is no room. */
static inline int memprof_fiber_push(struct memprof_stack *stack, struct memprof_fiber_walk *at,
				     uint64_t place, uint64_t word)
{
	if (at->walk.top == at->walk.kept) {
		at->walk.kept = 0;
		at->first = 0;
		at->rest_fiber = 0;
	}
	return memprof_walk_push(stack, &at->walk, place, word);
}

static inline int memprof_fiber_met(const struct memprof_stack *stack,
				    struct memprof_fiber_walk *at)
{
	struct memprof_walk *walk = &at->walk;
	const struct memprof_stack_slot *slot;

	while (walk->kept > at->first &&
	       memprof_slot_address(&stack->slots[walk->kept - 1]) < walk->sp - 8)
		walk->kept--;
	if (walk->kept <= at->first)
		return 0;
	slot = &stack->slots[walk->kept - 1];
	return memprof_slot_address(slot) == walk->sp - 8 && slot->word == walk->pc &&
	       memprof_slot_kind(slot) < MEMPROF_SLOT_LINK;
}

/* The fiber that was entered by this slot and the next one further in. */
static inline void memprof_fiber_of_entry(const struct memprof_stack *stack, uint32_t entry,
					  uint64_t *fiber, uint64_t *end)
{
	*fiber = memprof_slot_address(&stack->slots[entry]);
	*end = stack->slots[entry + 1].word;
}

/* The links of a fiber are dropped together: its parent, the parent's end, the parent's sp, which
 * is the outermost one. */
static inline uint32_t memprof_outermost_link(const struct memprof_stack *stack, uint32_t slot)
{
	uint64_t kind = memprof_slot_kind(&stack->slots[slot]);

	if (kind == MEMPROF_SLOT_LINK)
		return slot - 1;
	return kind == MEMPROF_SLOT_PARENT && slot >= 2 ? slot - 2 : slot;
}

/* Like memprof_walk_resume, in the fiber of the state from which the walk continues. If links have
 * to be read again, that state is one whose slots further out are all dropped; the remaining slots
 * belong to its parent. */
static inline void memprof_fiber_resume(struct memprof_stack *stack, struct memprof_fiber_walk *at,
					uint32_t changed)
{
	uint32_t kept = at->walk.kept, state, entry;
	int by_links;

	changed = memprof_outermost_link(stack, changed);
	state = changed + 1;
	entry = memprof_is_entry(stack, changed) ? changed : memprof_next_entry(stack, state, kept);
	by_links = memprof_slot_kind(&stack->slots[changed]) >= MEMPROF_SLOT_LINK ||
		   memprof_slot_kind(&stack->slots[state]) >= MEMPROF_SLOT_LINK;
	if (entry != kept)
		memprof_fiber_of_entry(stack, entry, &at->rest_fiber, &at->rest_end);
	while (memprof_slot_kind(&stack->slots[state]) >= MEMPROF_SLOT_LINK)
		state++;
	entry = memprof_next_entry(stack, state, kept);
	if (entry != kept)
		memprof_fiber_of_entry(stack, entry, &at->fiber, &at->end);
	memprof_walk_resume(stack, &at->walk, changed);
	at->first = by_links ? changed : memprof_fiber_first(stack, changed);
}

/* Leaves a fiber at its end; sp is 0 beyond the outermost one. */
static inline enum memprof_walk_end memprof_leave_fiber(struct memprof_stack *stack,
							struct memprof_fiber_walk *at)
{
	uint64_t link = at->end + MEMPROF_FIBER_PARENT, end, sp;
	uint64_t parent = at->end == at->begin->end ? at->begin->parent : memprof_stack_word(link);

	at->walk.sp = 0;
	if (!memprof_fiber_push(stack, at, link | MEMPROF_SLOT_PARENT, parent))
		return MEMPROF_WALK_TOO_DEEP;
	if (parent == 0)
		return MEMPROF_WALK_WHOLE;
	if (parent % 8 != 0)
		return MEMPROF_WALK_BROKEN;
	end = memprof_stack_word(parent + MEMPROF_FIBER_END);
	sp = memprof_stack_word(parent + MEMPROF_FIBER_SP);
	if (sp % 8 != 0 || sp <= parent || sp >= end)
		return MEMPROF_WALK_BROKEN;
	if (!memprof_fiber_push(stack, at, (parent + MEMPROF_FIBER_END) | MEMPROF_SLOT_LINK, end) ||
	    !memprof_fiber_push(stack, at, (parent + MEMPROF_FIBER_SP) | MEMPROF_SLOT_ENTRY, sp))
		return MEMPROF_WALK_TOO_DEEP;
	memprof_enter_fiber(stack, at, parent, end);
	at->walk.sp = sp + 8;
	at->walk.pc = memprof_stack_word(sp);
	return MEMPROF_WALK_WHOLE;
}

static inline enum memprof_walk_end
memprof_fiber_step(struct memprof_stack *stack, struct memprof_fiber_walk *at, uint64_t frame_size)
{
	struct memprof_walk *walk = &at->walk;
	uint64_t before = walk->sp;

	if (frame_size != MEMPROF_CHUNK_BOTTOM) {
		walk->sp += frame_size & 0xfffc;
	} else {
		if (before + MEMPROF_BOTTOM_BYTES == at->end)
			return memprof_leave_fiber(stack, at);
		walk->sp += MEMPROF_BOTTOM_BYTES + 8;
	}
	if (walk->sp == before || walk->sp % 8 != 0 || walk->sp > at->end)
		return MEMPROF_WALK_BROKEN;
	walk->pc = memprof_stack_word(walk->sp - 8);
	return MEMPROF_WALK_WHOLE;
}

/* At a frame without a descriptor, the runtime continues with the parent. The frame may have a
 * descriptor next time, so nothing of such a walk is reused. */
static inline enum memprof_walk_end memprof_fiber_unknown(struct memprof_stack *stack,
							  struct memprof_fiber_walk *at)
{
	at->unknown = 1;
	at->walk.kept = 0;
	at->first = 0;
	at->rest_fiber = 0;
	return memprof_leave_fiber(stack, at);
}

static inline enum memprof_walk_end memprof_fiber_walk_on(struct memprof_stack *stack,
							  struct memprof_fiber_walk *at)
{
	enum memprof_walk_end end = MEMPROF_WALK_WHOLE;

	while (at->walk.sp != 0 && end == MEMPROF_WALK_WHOLE) {
		int met = memprof_fiber_met(stack, at);
		uint64_t size, kind;

		if (met) {
			int64_t changed =
				memprof_first_changed_of_fibers(stack, at, at->walk.kept - 1);

			if (changed < 0)
				return MEMPROF_WALK_WHOLE;
			memprof_fiber_resume(stack, at, (uint32_t)changed);
		}
		size = memprof_frame_size(stack, at->walk.pc);
		if (size == 0) {
			end = memprof_fiber_unknown(stack, at);
			continue;
		}
		kind = size == MEMPROF_CHUNK_BOTTOM ? MEMPROF_SLOT_BOTTOM : MEMPROF_SLOT_FRAME;
		if (!met && !memprof_fiber_push(stack, at, (at->walk.sp - 8) | kind, at->walk.pc))
			return MEMPROF_WALK_TOO_DEEP;
		end = memprof_fiber_step(stack, at, size);
	}
	if (at->walk.sp == 0)
		at->walk.kept = 0;
	return end;
}

/* Like memprof_walk_stack. If it ends too deep, the innermost slots are at the end of the array. */
static inline enum memprof_walk_end memprof_walk_fibers(struct memprof_stack *stack,
							const struct memprof_frame_table *table,
							const struct memprof_fiber_begin *begin)
{
	struct memprof_fiber_walk at = {.walk = {begin->sp, begin->pc, 0, MEMPROF_STACK_SLOTS},
					.begin = begin};
	enum memprof_walk_end end;

	memprof_use_table(stack, table);
	if (!stack->unfinished) {
		at.walk.kept = stack->count;
		at.rest_fiber = stack->fiber;
		at.rest_end = stack->fiber_end;
	}
	memprof_enter_fiber(stack, &at, begin->fiber, begin->end);
	end = memprof_fiber_walk_on(stack, &at);
	if (end != MEMPROF_WALK_WHOLE) {
		memprof_forget_stack(stack);
		return end;
	}
	stack->unfinished = at.unknown;
	stack->fiber = begin->fiber;
	stack->fiber_end = begin->end;
	memprof_remember(stack, &at.walk);
	return at.unknown ? MEMPROF_WALK_UNKNOWN : MEMPROF_WALK_WHOLE;
}

#endif
