/* SPDX-License-Identifier: Apache-2.0 */
/* The stack of an OCaml 5 domain as the agent walks it (fiber_walk.h), for samples that it was
 * armed for (sample_switch.h). */
#ifndef MEMPROF_FIBER_STACKS_H
#define MEMPROF_FIBER_STACKS_H

#include "own_walk.h"

enum memprof_claim {
	MEMPROF_CLAIM_NONE,  /* the runtime has recorded all that it is to */
	MEMPROF_CLAIM_OWN,   /* found holds the stack */
	MEMPROF_CLAIM_WRONG, /* what was recorded is all that is known */
};
/* Called in the callback of a sample; index: that of the domain. */
enum memprof_claim memprof_claim_stack(uint32_t index, value callstack,
				       struct memprof_frames *found);

#endif
