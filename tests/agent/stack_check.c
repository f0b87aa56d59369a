/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_check.h"

#include "agent-lib/buffers.h"
#include "agent-lib/callstacks.h"
#include "agent-lib/delta_walk.h"
#include "agent-lib/domains.h"
#include "agent-lib/runtime_abi.h"

extern char *Caml_state WEAK;
extern void caml_c_call(void) WEAK;
extern const struct memprof_descriptor *const *caml_frame_descriptors WEAK;
extern uint64_t caml_frame_descriptors_mask WEAK;

/* In the domain state of OCaml 4. */
#define YOUNG_START 32
#define YOUNG_END 40
#define CODE_BYTES 32 /* of caml_c_call, that are looked at */

/* Threads share them: a remembered stack is right for any, and one that is of another thread only
 * has to be walked anew. Nothing of a thread has to be freed when it ends. */
#define STACKS 8u
static struct memprof_stack stacks[STACKS];

struct memprof_stack_checks memprof_stack_checks;
volatile uint32_t memprof_stack_check_wanted;

/* Where the domain state has the innermost OCaml frame when OCaml calls the runtime. */
static struct {
	uint32_t bottom_of_stack, last_return_address; /* 0: not known */
} offsets;

/* ------------------------------------------------------------------ the runtime */

/* caml_c_call begins with pop last_return_address(%r14); mov %rsp, bottom_of_stack(%r14). */
static void read_offsets(void)
{
	static const uint8_t pop[3] = {0x41, 0x8f, 0x86}, store[3] = {0x49, 0x89, 0xa6};
	const uint8_t *code = (const uint8_t *)(uintptr_t)caml_c_call;

	for (uint32_t i = 0; i + 7 <= CODE_BYTES; i++) {
		if (memcmp(code + i, pop, 3) == 0)
			memcpy(&offsets.last_return_address, code + i + 3, 4);
		if (memcmp(code + i, store, 3) == 0)
			memcpy(&offsets.bottom_of_stack, code + i + 3, 4);
	}
}

static int is_supported(void)
{
	static int supported = -1;

	if (supported >= 0)
		return supported;
	supported = !memprof_has_domains() && &Caml_state && caml_c_call &&
		    &caml_frame_descriptors && &caml_frame_descriptors_mask;
	if (supported)
		read_offsets();
	/* The two are side by side in all of them. */
	supported = supported && offsets.bottom_of_stack != 0 &&
		    offsets.last_return_address == offsets.bottom_of_stack + 8;
	return supported;
}

static uint64_t state_word(uint32_t offset) { return *(const uint64_t *)(Caml_state + offset); }

/* The runtime allocates the callstack of a sample that waits for its callback in the major heap,
 * that of one whose callback is at once in the minor one. Afterwards a collection may have moved
 * this to the other, but not that. */
static int is_of_this_moment(value callstack)
{
	return (uint64_t)callstack > state_word(YOUNG_START) &&
	       (uint64_t)callstack <= state_word(YOUNG_END);
}

/* ------------------------------------------------------------------ comparing */

/* Whether that is the debuginfo of one of the allocations that are combined there. */
static int has_debuginfo(const struct memprof_descriptor *descriptor, uint64_t debuginfo)
{
	const uint8_t *at = (const uint8_t *)(descriptor->live + descriptor->live_count);
	uint32_t count = 1;

	if ((descriptor->frame_size & 1) == 0)
		return 0;
	if ((descriptor->frame_size & 2) != 0) {
		count = *at;
		at += count + 1;
	}
	at = (const uint8_t *)(((uintptr_t)at + 3) & ~(uintptr_t)3);
	for (uint32_t i = 0; i < count; i++, at += sizeof(uint32_t)) {
		if ((uintptr_t)at + *(const uint32_t *)at == debuginfo)
			return 1;
	}
	return 0;
}

static int is_same_frame(const struct memprof_frame_table *table, value slot, uint64_t frame)
{
	const struct memprof_descriptor *descriptor;

	if (!memprof_is_slot(slot))
		return 0;
	if (!memprof_is_debuginfo(slot))
		return memprof_address_of(slot) == frame;
	descriptor = memprof_find_descriptor(table, frame);
	return descriptor && has_debuginfo(descriptor, memprof_address_of(slot));
}

/* The runtime's callstack ends after MEMPROF_PACKED_FRAMES. */
static int is_callstack(const struct memprof_stack *stack, value callstack)
{
	uint64_t length = WORDS_OF(callstack), frames = 0;

	for (uint32_t i = stack->count; i-- > 0;) {
		const struct memprof_stack_slot *slot = &stack->slots[i];

		if (memprof_slot_kind(slot) != MEMPROF_SLOT_FRAME)
			continue;
		if (frames < length &&
		    !is_same_frame(&stack->table, FIELD(callstack, frames), slot->word))
			return 0;
		frames++;
	}
	return length < MEMPROF_PACKED_FRAMES ? frames == length : frames >= length;
}

/* Whether a walk that remembers nothing comes by the same states, beyond that too. */
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
	struct memprof_frame_table table = {caml_frame_descriptors, caml_frame_descriptors_mask};
	uint64_t sp = state_word(offsets.bottom_of_stack);
	uint64_t pc = state_word(offsets.last_return_address);
	enum memprof_walk_end end = memprof_walk_stack(stack, &table, sp, pc);

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
	if (!is_supported())
		memprof_stack_checks.unsupported++;
	else if (!is_of_this_moment(callstack))
		memprof_stack_checks.postponed++;
	else
		compare(&stacks[MEMPROF_ORIGIN_TID(record->origin) % STACKS], callstack);
}
