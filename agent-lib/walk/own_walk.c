/* SPDX-License-Identifier: Apache-2.0 */
#include "own_walk.h"

#include "../callstacks.h"
#include "../domains.h"

extern void caml_start_program(void) WEAK;
extern const struct memprof_descriptor *const *caml_frame_descriptors WEAK;
extern uint64_t caml_frame_descriptors_mask WEAK;

/* In the domain state of OCaml 4. */
#define YOUNG_START 32
#define YOUNG_END 40
#define CODE_BYTES 32 /* bytes of caml_c_call to search */

/* A stack that was too deep to be remembered is tried again after this number of samples. */
#define DEEP_PATIENCE 256u

/* Threads share these: a remembered stack is valid for any thread, and a stack of another thread
 * only has to be walked again. Nothing has to be freed when a thread ends. */
#define STACKS 8u
static struct own_stack {
	struct memprof_stack stack;
	uint64_t deep_sp; /* sp at which a thread's stack was too deep; 0: none */
	uint32_t deep_tid, deep_samples;
} own_stacks[STACKS];

static uint64_t innermost[MEMPROF_PACKED_FRAMES]; /* of a truncated stack */

/* Offsets in the domain state of the innermost OCaml frame when OCaml calls the runtime. */
static struct {
	uint32_t bottom_of_stack, last_return_address; /* 0: unknown */
} state_offsets;

/* ------------------------------------------------------------------ the runtime */

/* caml_c_call begins with pop last_return_address(%r14); mov %rsp, bottom_of_stack(%r14). */
static void read_offsets(void)
{
	static const uint8_t pop[3] = {0x41, 0x8f, 0x86}, store[3] = {0x49, 0x89, 0xa6};
	const uint8_t *code = (const uint8_t *)(uintptr_t)caml_c_call;

	for (uint32_t i = 0; i + 7 <= CODE_BYTES; i++) {
		if (memcmp(code + i, pop, 3) == 0)
			memcpy(&state_offsets.last_return_address, code + i + 3, 4);
		if (memcmp(code + i, store, 3) == 0)
			memcpy(&state_offsets.bottom_of_stack, code + i + 3, 4);
	}
}

/* caml_start_program keeps no frame pointer: it begins with push %rbx; push %rbp; push %r12. */
static int has_no_frame_pointers(void)
{
	static const uint8_t pushes[4] = {0x53, 0x55, 0x41, 0x54};

	return memcmp((const void *)(uintptr_t)caml_start_program, pushes, sizeof pushes) == 0;
}

int memprof_walk_is_possible(void)
{
	static int possible = -1;

	if (possible >= 0)
		return possible;
	possible = !memprof_has_domains() && &Caml_state && caml_c_call && caml_start_program &&
		   &caml_frame_descriptors && &caml_frame_descriptors_mask &&
		   has_no_frame_pointers();
	if (possible)
		read_offsets();
	/* In all supported versions the two are adjacent. */
	possible = possible && state_offsets.bottom_of_stack != 0 &&
		   state_offsets.last_return_address == state_offsets.bottom_of_stack + 8;
	return possible;
}

static uint64_t state_word(uint32_t offset) { return *(const uint64_t *)(Caml_state + offset); }

int memprof_is_of_this_moment(value callstack)
{
	return (uint64_t)callstack > state_word(YOUNG_START) &&
	       (uint64_t)callstack <= state_word(YOUNG_END);
}

static const struct memprof_descriptor *find_by_runtime(uint64_t return_address)
{
	return caml_find_frame_descr(caml_get_frame_descrs(), return_address);
}

struct memprof_frame_table memprof_frame_table(void)
{
	/* Number of descriptors, mask and address; they change when code is loaded or unloaded. */
	const uint64_t *table;

	if (memprof_has_domains()) {
		table = caml_get_frame_descrs();
		return (struct memprof_frame_table){(const void *)(uintptr_t)table[2],
						    table[0] << 32 ^ table[1], find_by_runtime};
	}
	return (struct memprof_frame_table){caml_frame_descriptors, caml_frame_descriptors_mask,
					    NULL};
}

void memprof_stack_begin(uint64_t *sp, uint64_t *pc)
{
	*sp = state_word(state_offsets.bottom_of_stack);
	*pc = state_word(state_offsets.last_return_address);
}

char *memprof_state_of_c_calls(uint32_t offset)
{
	return Caml_state + state_offsets.bottom_of_stack + offset;
}

/* ------------------------------------------------------------------ walking */

/* True if this thread's stack was too deep when it was at most as deep as now. */
static int is_too_deep(struct own_stack *own, uint32_t tid, uint64_t sp)
{
	if (LIKELY(own->deep_sp == 0))
		return 0;
	if (own->deep_tid == tid && sp <= own->deep_sp && own->deep_samples++ < DEEP_PATIENCE)
		return 1;
	own->deep_sp = 0;
	return 0;
}

static int cut(const struct memprof_frame_table *table, struct memprof_frames *found)
{
	uint64_t sp, pc;

	memprof_stack_begin(&sp, &pc);
	found->depth = memprof_walk_innermost(table, sp, pc, innermost, MEMPROF_PACKED_FRAMES);
	found->cut = 1;
	found->stack = NULL;
	found->list = innermost + MEMPROF_PACKED_FRAMES - found->depth;
	return 1;
}

int memprof_walk_own(struct memprof_frames *found)
{
	struct memprof_frame_table table = memprof_frame_table();
	uint32_t tid = memprof_current_tid();
	struct own_stack *own = &own_stacks[tid % STACKS];
	enum memprof_walk_end end;
	uint64_t sp, pc;

	memprof_stack_begin(&sp, &pc);
	if (UNLIKELY(is_too_deep(own, tid, sp)))
		return cut(&table, found);
	end = memprof_walk_stack(&own->stack, &table, sp, pc);
	if (UNLIKELY(end == MEMPROF_WALK_BROKEN))
		return 0;
	if (UNLIKELY(end == MEMPROF_WALK_TOO_DEEP)) {
		own->deep_sp = sp;
		own->deep_tid = tid;
		own->deep_samples = 0;
		return cut(&table, found);
	}
	if (UNLIKELY(own->stack.frames > MEMPROF_PACKED_MOST_FRAMES))
		return cut(&table, found);
	*found = (struct memprof_frames){.depth = own->stack.frames, .stack = &own->stack};
	return 1;
}

void memprof_walk_failed(enum memprof_walk_state why)
{
	if (memprof_agent_control.walk_state == MEMPROF_WALK_OK)
		memprof_agent_control.walk_state = why;
}

/* ------------------------------------------------------------------ frames */

uint32_t memprof_slot_of_frame(const struct memprof_stack *stack, uint32_t frame)
{
	uint32_t slot = frame;

	for (uint32_t i = 0; i < stack->other_count && stack->others[i] <= slot; i++)
		slot++;
	return slot;
}

uint64_t memprof_innermost_frame(const struct memprof_frames *frames)
{
	if (!frames->stack)
		return frames->list[frames->depth - 1];
	return frames->stack->slots[memprof_slot_of_frame(frames->stack, frames->depth - 1)].word;
}

int memprof_is_same_frame(value slot, uint64_t frame)
{
	struct memprof_frame_table table = memprof_frame_table();
	const struct memprof_descriptor *descriptor;

	if (!memprof_is_slot(slot))
		return 0;
	if (!memprof_is_debuginfo(slot))
		return memprof_address_of(slot) == frame;
	descriptor = memprof_find_descriptor(&table, frame);
	return descriptor && memprof_has_debuginfo(descriptor, memprof_address_of(slot));
}

/* Innermost frames that have been compared with the runtime's slots, by domain. */
#define AGREED 256u
static struct {
	value slot;
	uint64_t frame;
} agreed[MEMPROF_REPORTERS][AGREED];

int memprof_agrees(uint32_t index, value slot, uint64_t frame)
{
	uint64_t at = ((uint64_t)slot >> 3) % AGREED;

	if (LIKELY(agreed[index][at].slot == slot && agreed[index][at].frame == frame))
		return 1;
	if (!memprof_is_same_frame(slot, frame))
		return 0;
	agreed[index][at].slot = slot;
	agreed[index][at].frame = frame;
	return 1;
}

/* A debuginfo identifies one of the combined allocations; without debug information the descriptor
 * has their lengths. */
int memprof_is_of_ocaml_code(value callstack)
{
	const struct memprof_descriptor *descriptor;
	value slot = WORDS_OF(callstack) != 0 ? FIELD(callstack, 0) : 0;

	if (!memprof_is_slot(slot))
		return 0;
	if (memprof_is_debuginfo(slot))
		return 1;
	descriptor = (const struct memprof_descriptor *)((uintptr_t)slot & ~(uintptr_t)3);
	return descriptor->frame_size != MEMPROF_CHUNK_BOTTOM && (descriptor->frame_size & 2) != 0;
}
