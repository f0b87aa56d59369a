/* SPDX-License-Identifier: Apache-2.0 */
#include "reported_stack.h"

#include "../callstacks.h"
#include "../domains.h"
#include "fiber_stacks.h"
#include "late_stacks.h"
#include "sample_switch.h"

static struct reporter {
	/* The last reported callstack. */
	uint64_t frames[MEMPROF_PACKED_MOST_FRAMES];
	uint32_t depth;
	const struct memprof_stack *stack; /* the stack and walk in which it was found; or null */
	uint64_t walks;
	uint64_t recorded[MEMPROF_PACKED_FRAMES];	     /* the runtime's frames of this one */
} __attribute__((aligned(64))) reporters[MEMPROF_REPORTERS]; /* each domain writes its own */
static_assert(MEMPROF_REPORTERS >= MEMPROF_SWITCHES, "each domain that is switched reports");

/* ------------------------------------------------------------------ finding */

/* True for the callstack of a late sample. A collection may have moved that of another sample. The
 * runtime uses a debuginfo, if there is one, only for allocations by OCaml code. */
static int is_late(value callstack)
{
	return !memprof_is_of_this_moment(callstack) && !memprof_is_debuginfo(FIELD(callstack, 0));
}

/* Finds all frames that the runtime has recorded; returns 0 if one of them is not a frame. */
static int have_recorded(struct reporter *reporter, value callstack, struct memprof_frames *found)
{
	uint64_t words = WORDS_OF(callstack);
	uint32_t depth = words < MEMPROF_PACKED_FRAMES ? (uint32_t)words : MEMPROF_PACKED_FRAMES;
	uint64_t *to = reporter->recorded + depth;

	for (uint32_t i = 0; i < depth; i++) {
		if (UNLIKELY(!memprof_is_slot(FIELD(callstack, i))))
			return 0;
		*--to = memprof_address_of(FIELD(callstack, i));
	}
	*found = (struct memprof_frames){
		.depth = depth,
		.cut = depth == MEMPROF_PACKED_FRAMES,
		.list = reporter->recorded,
	};
	return 1;
}

static int find_in_domain(uint32_t index, value callstack, struct memprof_frames *found)
{
	enum memprof_claim claim = memprof_claim_stack(index, callstack, found);

	memprof_switch_count(index, claim == MEMPROF_CLAIM_OWN ? found->depth : 0);
	if (claim == MEMPROF_CLAIM_NONE)
		return have_recorded(&reporters[index], callstack, found);
	return claim == MEMPROF_CLAIM_OWN;
}

/* The stack of a sample that is not late still exists. */
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

/* Reports only the innermost frame, from the runtime. */
static void have_innermost(struct reporter *reporter, value slot, struct memprof_frames *found)
{
	__atomic_fetch_add(&memprof_agent_control.callstacks_cut, 1, __ATOMIC_RELAXED);
	reporter->recorded[0] = memprof_address_of(slot);
	*found = (struct memprof_frames){.depth = 1, .cut = 1, .list = reporter->recorded};
}

/* ------------------------------------------------------------------ reporting */

/* Number of outermost frames that are known to equal those of the last report without comparing
 * them. The innermost of either may be reported as its debuginfo. */
static uint32_t known_shared(const struct reporter *last, const struct memprof_frames *found)
{
	const struct memprof_stack *stack = found->stack;
	uint32_t shared;

	if (!stack || last->depth == 0 || last->stack != stack || last->walks + 1 != stack->walks)
		return 0;
	shared = stack->frames_kept;
	if (shared >= last->depth)
		shared = last->depth - 1;
	return shared < found->depth ? shared : found->depth - 1;
}

static uint64_t next_frame(const struct memprof_stack *stack, uint32_t *slot)
{
	while (memprof_slot_kind(&stack->slots[*slot]) != MEMPROF_SLOT_FRAME)
		++*slot;
	return stack->slots[(*slot)++].word;
}

/* Stores the frames as the last reported ones; returns the number of outermost ones that are
 * unchanged. */
static uint32_t take(struct reporter *last, const struct memprof_frames *found, uint64_t innermost)
{
	uint32_t shared = known_shared(last, found);
	uint32_t slot = found->stack ? memprof_slot_of_frame(found->stack, shared) : 0;
	int same = 1;

	for (uint32_t i = shared; i < found->depth; i++) {
		uint64_t frame = found->stack ? next_frame(found->stack, &slot) : found->list[i];

		if (i + 1 == found->depth)
			frame = innermost;
		same = same && i < last->depth && last->frames[i] == frame;
		shared += same;
		last->frames[i] = frame;
	}
	last->depth = found->depth;
	last->stack = found->stack;
	last->walks = found->stack ? found->stack->walks : 0;
	return shared;
}

void memprof_forget_reported(uint32_t index)
{
	if (index < MEMPROF_REPORTERS)
		reporters[index].depth = 0;
}

/* True if the runtime's record is consistent with the walk. */
static int is_right(uint32_t index, value slot, const struct memprof_frames *found)
{
	if (found->list == reporters[index].recorded)
		return 1;
	return found->depth != 0 && memprof_agrees(index, slot, memprof_innermost_frame(found));
}

/* Returns 0 if the runtime's record is not a callstack. */
static int find_or_have(uint32_t index, value callstack, uint32_t source,
			struct memprof_frames *found)
{
	value slot = WORDS_OF(callstack) != 0 ? FIELD(callstack, 0) : 0;
	int is_found;

	if (UNLIKELY(!memprof_is_slot(slot))) {
		if (slot != 0)
			memprof_count_moved_callstack();
		if (memprof_has_domains())
			(void)memprof_switch_take(index);
		return 0;
	}
	is_found = memprof_has_domains() ? find_in_domain(index, callstack, found)
					 : find(callstack, source, found);
	if (UNLIKELY(!is_found)) {
		have_innermost(&reporters[index], slot, found);
	} else if (UNLIKELY(!is_right(index, slot, found))) {
		memprof_walk_failed(MEMPROF_WALK_DIFFERED);
		have_innermost(&reporters[index], slot, found);
	}
	return 1;
}

void memprof_report_stack(uint32_t index, value callstack, uint32_t source,
			  struct memprof_reported_stack *reported)
{
	struct reporter *reporter = &reporters[index];
	struct memprof_frames found;
	uint64_t innermost;

	*reported = (struct memprof_reported_stack){.frames = reporter->frames};
	if (UNLIKELY(!find_or_have(index, callstack, source, &found))) {
		reporter->depth = 0;
		return;
	}
	innermost = memprof_address_of(FIELD(callstack, 0));
	if (memprof_is_debuginfo(FIELD(callstack, 0)))
		innermost |= MEMPROF_REPORTED_DEBUGINFO;
	reported->shared = take(reporter, &found, innermost);
	reported->depth = found.depth;
	reported->cut = found.cut;
}
