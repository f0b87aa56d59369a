/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's own walk of OCaml 4 stacks (delta_walk.h), proven on the program that runs: in a
 * session of checked capture the runtime captures, and what the agent finds is compared with it.
 * No record depends on it. All calls under the runtime lock.
 */
#ifndef MEMPROF_STACK_CHECK_H
#define MEMPROF_STACK_CHECK_H

#include <stdint.h>

#include "runtime_abi.h"

/* Over the process's life; read by who looks at the agent's memory. */
struct memprof_stack_checks {
	uint64_t equal;
	uint64_t different;
	/* Not compared: the callback may be later than the sample. */
	uint64_t postponed;
	uint64_t too_deep; /* not compared: more than MEMPROF_STACK_SLOTS */
	uint64_t walked;   /* slots, of walks that were compared */
	uint64_t verified;
	uint64_t unsupported; /* samples in a runtime where the walk cannot be */
};
extern struct memprof_stack_checks memprof_stack_checks;

/* In the callback of a sample on thread tid, before anything of the runtime is called:
 * the callstack is the runtime's. */
void memprof_check_stack(uint32_t tid, value callstack);

#endif
