/* SPDX-License-Identifier: Apache-2.0 */
/* Callstacks of samples in agent capture, each encoded as the difference from the previous one. All
 * calls require the runtime lock, in OCaml 5 that of the domain. */
#ifndef MEMPROF_REPORTED_STACK_H
#define MEMPROF_REPORTED_STACK_H

#include "../runtime_abi.h"

#define MEMPROF_REPORTED_DEBUGINFO (UINT64_C(1) << 63)

/* Valid until the next sample. */
struct memprof_reported_stack {
	const uint64_t *frames; /* outermost first; with MEMPROF_REPORTED_DEBUGINFO, the innermost
				   one is the address of its debuginfo */
	uint32_t depth;
	uint32_t shared; /* outermost frames equal to those of the previous sample */
	uint32_t cut;	 /* further, outer frames are missing */
};

/* Finds the stack for which the runtime's callstack of one frame stands; in OCaml 5 that callstack
 * may have more. index: of the domain; source: of the sample. */
void memprof_report_stack(uint32_t index, value callstack, uint32_t source,
			  struct memprof_reported_stack *reported);
/* The next sample shares no frames. */
void memprof_forget_reported(uint32_t index);

#endif
