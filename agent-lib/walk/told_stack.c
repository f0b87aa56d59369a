/* SPDX-License-Identifier: Apache-2.0 */
#include "told_stack.h"

#include "../callstacks.h"
#include "late_stacks.h"

/* Innermost frames that have been compared with the runtime's slots. */
#define AGREED 256u
static struct {
	value slot;
	uint64_t frame;
} agreed[AGREED];

/* The callstack told last. */
static struct {
	uint64_t frames[MEMPROF_PACKED_MOST_FRAMES];
	uint32_t depth;
	const struct memprof_stack *stack; /* that it was found in, by this walk of it; or null */
	uint64_t walks;
} last;

/* ------------------------------------------------------------------ finding */

static int agrees(value slot, uint64_t frame)
{
	uint64_t at = ((uint64_t)slot >> 3) % AGREED;

	if (LIKELY(agreed[at].slot == slot && agreed[at].frame == frame))
		return 1;
	if (!memprof_is_same_frame(slot, frame))
		return 0;
	agreed[at].slot = slot;
	agreed[at].frame = frame;
	return 1;
}

/* Whether it is of a late sample. A collection may have moved that of another one, which the
 * runtime tells by a debuginfo where there is one: only of what OCaml code allocates. */
static int is_late(value callstack)
{
	return !memprof_is_of_this_moment(callstack) && !memprof_is_debuginfo(FIELD(callstack, 0));
}

/* The stack of a sample that is not late is still there. */
static int find(value callstack, uint32_t source, struct memprof_frames *found)
{
	if (memprof_agent_control.walk_state != MEMPROF_WALK_OK)
		return 0;
	if (UNLIKELY(is_late(callstack)))
		return memprof_take_late_stack(callstack, source == MEMPROF_SOURCE_MARSHAL, found);
	if (LIKELY(memprof_walk_own(found)))
		return 1;
	memprof_walk_failed(MEMPROF_WALK_BROKEN_STACK);
	return 0;
}

/* The innermost frame alone, which the runtime has told. */
static void have_innermost(value slot, struct memprof_frames *found)
{
	static uint64_t frame;

	memprof_agent_control.callstacks_cut++;
	frame = memprof_address_of(slot);
	*found = (struct memprof_frames){.depth = 1, .cut = 1, .list = &frame};
}

/* ------------------------------------------------------------------ telling */

/* How many outermost frames are known to be those told last without a look at them. The innermost
 * one of either may be told as its debuginfo. */
static uint32_t known_shared(const struct memprof_frames *found)
{
	const struct memprof_stack *stack = found->stack;
	uint32_t shared;

	if (!stack || last.depth == 0 || last.stack != stack || last.walks + 1 != stack->walks)
		return 0;
	shared = stack->frames_kept;
	if (shared >= last.depth)
		shared = last.depth - 1;
	return shared < found->depth ? shared : found->depth - 1;
}

static uint64_t next_frame(const struct memprof_stack *stack, uint32_t *slot)
{
	while (memprof_slot_kind(&stack->slots[*slot]) != MEMPROF_SLOT_FRAME)
		++*slot;
	return stack->slots[(*slot)++].word;
}

/* The frames become those told last; answers how many outermost ones were that before. */
static uint32_t take(const struct memprof_frames *found, uint64_t innermost)
{
	uint32_t shared = known_shared(found);
	uint32_t slot = found->stack ? memprof_slot_of_frame(found->stack, shared) : 0;
	int same = 1;

	for (uint32_t i = shared; i < found->depth; i++) {
		uint64_t frame = found->stack ? next_frame(found->stack, &slot) : found->list[i];

		if (i + 1 == found->depth)
			frame = innermost;
		same = same && i < last.depth && last.frames[i] == frame;
		shared += same;
		last.frames[i] = frame;
	}
	last.depth = found->depth;
	last.stack = found->stack;
	last.walks = found->stack ? found->stack->walks : 0;
	return shared;
}

void memprof_forget_told(void) { last.depth = 0; }

void memprof_tell_stack(value callstack, uint32_t source, struct memprof_told *told)
{
	value slot = WORDS_OF(callstack) != 0 ? FIELD(callstack, 0) : 0;
	struct memprof_frames found;
	uint64_t innermost;

	*told = (struct memprof_told){.frames = last.frames};
	if (UNLIKELY(!memprof_is_slot(slot))) {
		if (slot != 0)
			memprof_count_moved_callstack();
		last.depth = 0;
		return;
	}
	if (UNLIKELY(!find(callstack, source, &found))) {
		have_innermost(slot, &found);
	} else if (UNLIKELY(found.depth == 0 || !agrees(slot, memprof_innermost_frame(&found)))) {
		memprof_walk_failed(MEMPROF_WALK_DIFFERED);
		have_innermost(slot, &found);
	}
	innermost = memprof_address_of(slot);
	if (memprof_is_debuginfo(slot))
		innermost |= MEMPROF_TOLD_DEBUGINFO;
	told->shared = take(&found, innermost);
	told->depth = found.depth;
	told->cut = found.cut;
}
