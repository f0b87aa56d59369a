/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the agent into a witness: the runtime records each sample's callstack
 * itself, and this writes it to the file named by MEMPROF_TRUTH_FILE.
 *
 * Format: for each sample u64 sample_id, u64 slots, then the slots, innermost
 * first: a return address, or, with bit 63 set, the address of a debuginfo (the
 * runtime's own choice among combined allocations).
 */
#ifndef MEMPROF_TRUTH_H
#define MEMPROF_TRUTH_H

#define TRUTH_DEBUGINFO (1ULL << 63)

#ifndef __cplusplus
// Precedes all of the agent's source, and so its requests to the headers.
#define _GNU_SOURCE
#include <stdint.h>
#define MEMPROF_CALLSTACK_SIZE 1000000
// The agent's own walk is compared with the runtime's, which allocates blocks of any size.
#define MEMPROF_WALKED_CALLSTACK_SIZE 1000000
#define MEMPROF_UNWALKED_CALLSTACK_SIZE 1000000
#define MEMPROF_SWITCH_FRAMES 0
#define MEMPROF_MAY_BE_CALLSTACK(words) ((words) > 0)
#define MEMPROF_STRANGERS_MIN UINT64_MAX
// Makes all allocations of C in the major heap wait.
#define MEMPROF_LATE 4096u
#define MEMPROF_LATE_WORDS (1u << 18)
void memprof_truth_callstack(uint64_t sample_id, intptr_t callstack);
#define MEMPROF_ON_CALLSTACK(record, callstack) \
  memprof_truth_callstack((record)->sample_id, callstack)
#endif

#endif
