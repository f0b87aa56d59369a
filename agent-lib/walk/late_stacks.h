/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the stacks of OCaml 4 samples whose callback comes later, when they are sampled.
 *
 * Blocks that C code allocates are sampled at once but reported later, when the stack has changed.
 * With callstacks of one frame, the runtime then allocates a block of one word in the major heap by
 * caml_fl_p_allocate, an exported variable that Gc.set changes. In a session of agent capture this
 * variable holds a function of the agent, which allocates the block, walks the stack and keeps the
 * stack with the block. The callback receives the block and so finds its stack.
 *
 *   String.make, in C   caml_memprof_track_alloc_shr
 *                         caml_fl_p_allocate(1) = on_allocate: block 7f10, walks main > f > g
 *   returns to g > f    late[]  | 7f10, main f g |
 *   f allocates         callback({callstack = 7f10, ..}): main f g, checked against its one slot
 *
 * Each kept block is a root (caml_scan_roots_hook) until its stack is taken or too many others have
 * come. So no other block gets its address, and the address is updated when a compaction moves the
 * block.
 *
 * Promotion uses the same variable, so our function is removed when a minor collection begins and
 * set again when it ends. If Gc.set has written another function meanwhile, ours calls that one
 * from then on; the first late sample whose stack was missed sets ours again. All calls require the
 * runtime lock.
 */
#ifndef MEMPROF_LATE_STACKS_H
#define MEMPROF_LATE_STACKS_H

#include "own_walk.h"

/* Called when the agent is loaded. */
void memprof_late_stacks_load(void);
/* True if the runtime has everything that is needed, in the expected form. */
int memprof_late_stacks_are_possible(void);

/* Called with a session. begin drops the stacks kept before; end undoes everything that was
 * written. */
void memprof_late_stacks_begin(void);
void memprof_late_stacks_end(void);
/* Called before and after each minor collection. */
void memprof_late_stacks_pause(void);
void memprof_late_stacks_go_on(void);

/* Called in the callback of a late sample. Returns 0 if its stack was not taken or has been
 * forgotten. again: further callbacks come with the same block. */
int memprof_take_late_stack(value callstack, int again, struct memprof_frames *found);

#endif
