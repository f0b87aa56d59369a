/* SPDX-License-Identifier: Apache-2.0 */
/* The stack of a domain of OCaml 5 as the agent walks it (fiber_walk.h), where a sample is one that
 * it was armed for (sample_switch.h). */
#ifndef MEMPROF_FIBER_STACKS_H
#define MEMPROF_FIBER_STACKS_H

#include "own_walk.h"

enum memprof_claim {
	MEMPROF_CLAIM_NONE,  /* the runtime has recorded all that it is to */
	MEMPROF_CLAIM_OWN,   /* found holds the stack */
	MEMPROF_CLAIM_WRONG, /* what was recorded is all that is known */
};
/* In the callback of a sample; index: of the domain. */
enum memprof_claim memprof_claim_stack(uint32_t index, value callstack,
				       struct memprof_frames *found);

#endif
