/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber_stacks.h"

#include "../callstacks.h"
#include "../profiles.h"
#include "fiber_walk.h"
#include "sample_switch.h"

/* A callback's chunk begins with its return address and its bottom. Tests write this variable. */
static volatile uint64_t memprof_callback_bytes = 8 + MEMPROF_BOTTOM_BYTES;

static struct fiber_stack {
	uint64_t walked; /* samples, over the life of the process; tests read it */
	struct memprof_stack stack;
	uint64_t innermost[MEMPROF_PACKED_FRAMES]; /* of a truncated stack */
} __attribute__((aligned(64))) memprof_fiber_stacks[MEMPROF_SWITCHES];

/* The callback runs on the sampled stack, so the callback's chunk comes first: its return address
 * and its bottom. The runtime may have moved the stack to make room for the chunk, and hides the
 * stack's parent. */
static int find_begin(const struct memprof_armed *armed, struct memprof_fiber_begin *begin)
{
	uint64_t fiber = *(const uint64_t *)(caml_state + MEMPROF_DOMAIN_CURRENT_STACK);
	uint64_t sp = memprof_stack_word(fiber + MEMPROF_FIBER_SP) + memprof_callback_bytes;
	uint64_t end = memprof_stack_word(fiber + MEMPROF_FIBER_END);

	*begin = (struct memprof_fiber_begin){fiber, end, armed->parent, sp + 8, armed->pc};
	return end - sp == armed->depth && memprof_stack_word(sp) == armed->pc;
}

/* Keeps the innermost frames of a stack that has more than can be reported. */
static void cut(struct fiber_stack *own, uint32_t count, struct memprof_frames *found)
{
	uint32_t frames = 0;

	for (uint32_t i = count; i-- > 0 && frames < MEMPROF_PACKED_FRAMES;) {
		const struct memprof_stack_slot *slot = &own->stack.slots[i];

		if (memprof_slot_kind(slot) == MEMPROF_SLOT_FRAME)
			own->innermost[MEMPROF_PACKED_FRAMES - ++frames] = slot->word;
	}
	*found = (struct memprof_frames){.depth = frames, .cut = 1};
	found->list = own->innermost + MEMPROF_PACKED_FRAMES - frames;
}

static int walk(uint32_t index, const struct memprof_fiber_begin *begin,
		struct memprof_frames *found)
{
	struct fiber_stack *own = &memprof_fiber_stacks[index];
	struct memprof_frame_table table = memprof_frame_table();
	enum memprof_walk_end end = memprof_walk_fibers(&own->stack, &table, begin);

	if (UNLIKELY(end == MEMPROF_WALK_BROKEN))
		return 0;
	if (UNLIKELY(end == MEMPROF_WALK_TOO_DEEP))
		cut(own, MEMPROF_STACK_SLOTS, found);
	else if (UNLIKELY(own->stack.frames > MEMPROF_PACKED_MOST_FRAMES))
		cut(own, own->stack.count, found);
	else
		*found = (struct memprof_frames){.depth = own->stack.frames, .stack = &own->stack};
	if (UNLIKELY(found->cut))
		memprof_switch_too_deep(index, begin->fiber, begin->sp - 8);
	own->walked++;
	return 1;
}

/* True if a callstack of this length is one for which the number of frames was switched. If a test
 * has all frames recorded, that is the first sample after the switch. */
static int may_be_walked(value callstack, const struct memprof_armed *armed)
{
	if (armed->pc == 0 || WORDS_OF(callstack) > MEMPROF_WALKED_CALLSTACK_SIZE)
		return 0;
	return armed->fresh || MEMPROF_WALKED_CALLSTACK_SIZE == 1;
}

static enum memprof_claim wrong(enum memprof_walk_state why)
{
	memprof_walk_failed(why);
	return MEMPROF_CLAIM_WRONG;
}

enum memprof_claim memprof_claim_stack(uint32_t index, value callstack,
				       struct memprof_frames *found)
{
	struct memprof_armed armed = memprof_switch_take(index);
	struct memprof_fiber_begin begin;

	if (!may_be_walked(callstack, &armed)) {
		memprof_switch_missed(index);
		return MEMPROF_CLAIM_NONE;
	}
	if (!find_begin(&armed, &begin) || !memprof_agrees(index, FIELD(callstack, 0), armed.pc))
		return armed.fresh && WORDS_OF(callstack) == 1 ? wrong(MEMPROF_WALK_DIFFERED)
							       : MEMPROF_CLAIM_NONE;
	if (memprof_agent_control.walk_state != MEMPROF_WALK_OK)
		return MEMPROF_CLAIM_WRONG;
	return walk(index, &begin, found) ? MEMPROF_CLAIM_OWN : wrong(MEMPROF_WALK_BROKEN_STACK);
}
