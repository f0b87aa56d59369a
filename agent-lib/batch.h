/* SPDX-License-Identifier: Apache-2.0 */
/* Adds records to the batches being filled (buffers.h), in the format of the running session. Calls
 * must be between memprof_take_buffer and memprof_give_back_buffer, except those that name a
 * domain. */
#ifndef MEMPROF_BATCH_H
#define MEMPROF_BATCH_H

#include "buffers.h"

/* Appends one record with its time and thread, and flushes if the batch is full. callstack: the
 * runtime's callstack of an allocation; ignored in kernel capture. */
void memprof_append(uint32_t buffer, struct memprof_record *record, value callstack);
/* Records an event of a followed block; locks the domain's buffer itself. */
void memprof_append_follow(uint32_t domain, value id, enum memprof_record_kind kind);
/* Flushes if the oldest record of the domain's buffer has waited too long. */
void memprof_batch_minor_gc_ended(uint32_t domain, uint64_t now_ns);
/* Called in a forked child: the unflushed records belong to the parent. */
void memprof_batch_forget(void);

#endif
