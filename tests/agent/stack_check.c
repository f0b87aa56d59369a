/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_check.h"

#include "agent-lib/buffers.h"
#include "agent-lib/callstacks.h"
#include "agent-lib/walk/own_walk.h"

/* Threads share the stacks: a walk verifies what it remembers, so a stack of another thread only
 * costs a complete walk. Nothing has to be freed when a thread ends. */
#define STACKS 8u
static struct memprof_stack stacks[STACKS];

struct memprof_stack_checks memprof_stack_checks;
volatile uint32_t memprof_stack_check_wanted;

/* ------------------------------------------------------------------ comparing */

/* The runtime's callstack ends after MEMPROF_PACKED_FRAMES. */
static int is_callstack(const struct memprof_stack *stack, value callstack)
{
	uint64_t length = WORDS_OF(callstack), frames = 0;

	for (uint32_t i = stack->count; i-- > 0;) {
		const struct memprof_stack_slot *slot = &stack->slots[i];

		if (memprof_slot_kind(slot) != MEMPROF_SLOT_FRAME)
			continue;
		if (frames < length &&
		    !memprof_is_same_frame(FIELD(callstack, frames), slot->word))
			return 0;
		frames++;
	}
	return length < MEMPROF_PACKED_FRAMES ? frames == length : frames >= length;
}

/* True if a complete walk has the same states, including those beyond the runtime's callstack. */
static int is_walked_anew(const struct memprof_stack *stack, uint64_t sp, uint64_t pc)
{
	uint32_t i = stack->count;

	while (sp != 0) {
		const struct memprof_descriptor *descriptor =
			memprof_find_descriptor(&stack->table, pc);
		int bottom = descriptor && descriptor->frame_size == MEMPROF_CHUNK_BOTTOM;
		uint64_t at = sp;

		if (!descriptor)
			break;
		if (i-- == 0 || stack->slots[i].word != pc ||
		    stack->slots[i].place !=
			    ((at - 8) | (bottom ? MEMPROF_SLOT_BOTTOM : MEMPROF_SLOT_FRAME)))
			return 0;
		sp = bottom ? memprof_stack_word(at + 16) : at + (descriptor->frame_size & 0xfffc);
		pc = memprof_stack_word(bottom ? at + 24 : sp - 8);
		if (bottom &&
		    (i < 2 || stack->slots[i - 1].word != sp || stack->slots[i - 2].word != pc))
			return 0;
		i -= bottom ? 2 : 0;
	}
	return i == 0;
}

static void compare(struct memprof_stack *stack, value callstack)
{
	struct memprof_frame_table table = memprof_frame_table();
	enum memprof_walk_end end;
	uint64_t sp, pc;

	memprof_stack_begin(&sp, &pc);
	end = memprof_walk_stack(stack, &table, sp, pc);
	if (end == MEMPROF_WALK_TOO_DEEP) {
		memprof_stack_checks.too_deep++;
	} else if (end != MEMPROF_WALK_BROKEN && is_callstack(stack, callstack) &&
		   is_walked_anew(stack, sp, pc)) {
		memprof_stack_checks.equal++;
		memprof_stack_checks.verified += stack->kept;
		memprof_stack_checks.walked += stack->count - stack->kept;
	} else {
		memprof_stack_checks.different++;
		memprof_forget_stack(stack);
	}
}

void memprof_check_stack(const struct memprof_record *record, intptr_t callstack)
{
	if (!memprof_stack_check_wanted ||
	    memprof_agent_control.running_capture != MEMPROF_CAPTURE_BY_RUNTIME)
		return;
	if (!memprof_walk_is_possible())
		memprof_stack_checks.unsupported++;
	else if (!memprof_is_of_this_moment(callstack))
		memprof_stack_checks.postponed++;
	else
		compare(&stacks[MEMPROF_ORIGIN_TID(record->origin) % STACKS], callstack);
}
