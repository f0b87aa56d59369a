/* SPDX-License-Identifier: Apache-2.0 */
/* Records of runtime capture, with their callstacks, in little room; the form is that of
 * packed batches (include/memprof_agent_abi.h). */
#ifndef MEMPROF_PACKED_H
#define MEMPROF_PACKED_H

#include "batch.h"

/* Whether the batch in the buffer has room for the record, whatever its callstack, and is
 * not too old for it. */
int memprof_packed_has_room(const struct memprof_batch_buffer *buffer, uint64_t time_ns);
/* Begins an empty batch with this record's time. */
void memprof_packed_begin(uint32_t buffer, const struct memprof_record *record);
/* Appends the record to a batch that has room. callstack: of an allocation. */
void memprof_packed_append(uint32_t buffer, const struct memprof_record *record, value callstack);

#endif
