/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes records of runtime capture, with their callstacks, as packed batches
 * (include/memprof_agent_abi.h). */
#ifndef MEMPROF_PACKED_H
#define MEMPROF_PACKED_H

#include "buffers.h"

/* Appends the record, whose time is set, and flushes first if there is no room. callstack: that of
 * an allocation. */
void memprof_packed_append(uint32_t buffer, struct memprof_record *record, value callstack);
/* Blocks that were promoted or died in a minor collection get the time of its end. */
void memprof_packed_minor_gc_ended(uint32_t buffer, uint64_t time_ns);

#endif
