/* SPDX-License-Identifier: Apache-2.0 */
/* The stack of an OCaml 4 program as the agent walks it (delta_walk.h), and functions that the walk
 * of OCaml 5 (sample_switch.h) also uses. All calls require the runtime lock. */
#ifndef MEMPROF_OWN_WALK_H
#define MEMPROF_OWN_WALK_H

#include "../buffers.h"
#include "delta_walk.h"
#include "../runtime_abi.h"

/* Frames of a stack, outermost first; until the next walk. */
struct memprof_frames {
	uint32_t depth;
	uint32_t cut;			   /* further, outer frames are missing */
	const struct memprof_stack *stack; /* contains exactly these frames; null: use list */
	const uint64_t *list;
};

/* True for an OCaml 4 runtime whose stacks the agent can walk. */
int memprof_walk_is_possible(void);
/* Walks the stack where OCaml code has called the runtime, and in the callback of a sample that
 * is not late. Returns 0 if the stack is not valid. Truncates a stack that is too large for a
 * batch. */
int memprof_walk_own(struct memprof_frames *found);

/* Records why a walk failed. No stack is walked any more in this session, and the control block
 * reports the reason. */
void memprof_walk_failed(enum memprof_walk_state why);

/* The slot of a frame by its number from the outermost one. */
uint32_t memprof_slot_of_frame(const struct memprof_stack *stack, uint32_t frame);
uint64_t memprof_innermost_frame(const struct memprof_frames *frames);
/* Number of domains whose callstacks the agent reports. */
#define MEMPROF_REPORTERS 16u
/* Like memprof_is_same_frame, but caches successes; index: of the domain. */
int memprof_agrees(uint32_t index, value slot, uint64_t frame);
/* True if OCaml code, not C code, allocated the block of this callstack. */
int memprof_is_of_ocaml_code(value callstack);
/* True if the runtime's slot is this frame. */
int memprof_is_same_frame(value slot, uint64_t frame);

struct memprof_frame_table memprof_frame_table(void);
/* OCaml 4: the state in which a walk begins where OCaml code has called the runtime. */
void memprof_stack_begin(uint64_t *sp, uint64_t *pc);
/* OCaml 4: address in the domain state, by its offset from bottom_of_stack. */
char *memprof_state_of_c_calls(uint32_t offset);
/* True if the callback follows its sample at once. Then the runtime allocates the callstack in the
 * minor heap, otherwise in the major one; a collection may move it to the major heap only. */
int memprof_is_of_this_moment(value callstack);

#endif
