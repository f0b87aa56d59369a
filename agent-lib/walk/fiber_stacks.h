/* SPDX-License-Identifier: Apache-2.0 */
/* The stack of an OCaml 5 domain as the agent walks it (fiber_walk.h), for samples for which it was
 * armed (sample_switch.h). */
#ifndef MEMPROF_FIBER_STACKS_H
#define MEMPROF_FIBER_STACKS_H

#include "own_walk.h"

enum memprof_claim {
	MEMPROF_CLAIM_NONE,  /* the runtime has recorded all frames */
	MEMPROF_CLAIM_OWN,   /* found holds the stack */
	MEMPROF_CLAIM_WRONG, /* only the recorded frames are known */
};
/* Called in the callback of a sample; index: that of the domain. */
enum memprof_claim memprof_claim_stack(uint32_t index, value callstack,
				       struct memprof_frames *found);

#endif
