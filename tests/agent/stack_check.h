/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies the agent's own walk of OCaml 4 stacks (agent-lib/walk/delta_walk.h) in a running
 * program: an agent built with this file compares its walks with the runtime's callstacks, in
 * sessions with runtime capture and while a test requests it. No record depends on it. The caller
 * holds the runtime lock.
 */
#ifndef MEMPROF_STACK_CHECK_H
#define MEMPROF_STACK_CHECK_H

#include <stdint.h>

struct memprof_record;

/* Set by the test through the agent's memory. */
extern volatile uint32_t memprof_stack_check_wanted;
/* Counts over the process's lifetime, which the test reads through the agent's memory. */
struct memprof_stack_checks {
  uint64_t equal;
  uint64_t different;
  /* Not compared, because the callback may run later than the sample. */
  uint64_t postponed;
  uint64_t too_deep; /* not compared: more than MEMPROF_STACK_SLOTS slots */
  uint64_t walked;   /* slots of compared walks */
  uint64_t verified;
  uint64_t unsupported; /* samples in a runtime that does not allow the walk */
};
extern struct memprof_stack_checks memprof_stack_checks;

/* To call in the callback of a sample, before any function of the runtime. */
void memprof_check_stack(const struct memprof_record* record, intptr_t callstack);
#define MEMPROF_ON_CALLSTACK memprof_check_stack

#endif
