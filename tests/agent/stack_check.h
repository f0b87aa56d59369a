/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's own walk of OCaml 4 stacks (agent-lib/walk/delta_walk.h), proven on the program that
 * runs: an agent that is built with this compares what it finds with the callstacks of the runtime,
 * in sessions that the runtime captures and while a test wants it to. No record depends on it. All
 * calls under the runtime lock.
 */
#ifndef MEMPROF_STACK_CHECK_H
#define MEMPROF_STACK_CHECK_H

#include <stdint.h>

struct memprof_record;

/* Written by who looks at the agent's memory. */
extern volatile uint32_t memprof_stack_check_wanted;
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

/* In the callback of a sample, before anything of the runtime is called. */
void memprof_check_stack(const struct memprof_record* record, intptr_t callstack);
#define MEMPROF_ON_CALLSTACK memprof_check_stack

#endif
