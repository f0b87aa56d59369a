/* SPDX-License-Identifier: Apache-2.0 */
/* Records of runtime capture, with their callstacks, in little room; the form is that of
 * packed batches (include/memprof_agent_abi.h). */
#ifndef MEMPROF_PACKED_H
#define MEMPROF_PACKED_H

#include "buffers.h"

/* Appends the record, its time filled in, and flushes before when there is no room.
 * callstack: of an allocation. */
void memprof_packed_append(uint32_t buffer, struct memprof_record *record, value callstack);
/* Blocks that were promoted or died in a minor collection did so when it ended. */
void memprof_packed_minor_gc_ended(uint32_t buffer, uint64_t time_ns);

#endif
