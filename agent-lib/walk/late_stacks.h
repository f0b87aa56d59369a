/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of OCaml 4 samples whose callback comes later, taken when they are sampled.
 *
 * What C code allocates is sampled at once and told later, when the stack is another one. With
 * callstacks of one frame the runtime then allocates a block of one word in the major heap, by
 * caml_fl_p_allocate, a variable that it exports and Gc.set changes. In a session that the agent
 * captures a function of the agent stands there: it has the block allocated, walks the stack and
 * keeps it with the block. The callback gets the block and so finds its stack.
 *
 *   String.make, in C   caml_memprof_track_alloc_shr
 *                         caml_fl_p_allocate(1) = on_allocate: block 7f10, walks main > f > g
 *   returns to g > f    late[]  | 7f10, main f g |
 *   f allocates         callback({callstack = 7f10, ..}): main f g, checked against its one slot
 *
 * Each kept block is a root (caml_scan_roots_hook), until its stack is taken or too many others
 * have come: its address is no other block's, and it is followed when a compaction moves it.
 *
 * Promotion uses the same variable: each minor collection begins with ours taken out and ends with
 * it put in again. When Gc.set has written another one meanwhile, that is the one that ours calls
 * from then on, and the first late sample whose stack was missed has ours put in, too. All under
 * the runtime lock.
 */
#ifndef MEMPROF_LATE_STACKS_H
#define MEMPROF_LATE_STACKS_H

#include "own_walk.h"

/* When the agent is loaded. */
void memprof_late_stacks_load(void);
/* True if the runtime has everything that is needed, in the expected form. */
int memprof_late_stacks_are_possible(void);

/* With a session. None of what was kept before is left; all that was written is undone. */
void memprof_late_stacks_begin(void);
void memprof_late_stacks_end(void);
/* Around each minor collection. */
void memprof_late_stacks_pause(void);
void memprof_late_stacks_go_on(void);

/* In the callback of a late sample: 0 when its stack was not taken or has been forgotten. again:
 * further callbacks come with the same block. */
int memprof_take_late_stack(value callstack, int again, struct memprof_frames *found);

#endif
