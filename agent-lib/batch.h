/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records into the batches being filled (buffers.h), in the format of the session that runs.
 * All calls between memprof_take_buffer and memprof_give_back_buffer, but where a domain is
 * named.
 */
#ifndef MEMPROF_BATCH_H
#define MEMPROF_BATCH_H

#include "buffers.h"

/* Appends one record with its time and thread, and flushes if the batch is full. callstack: of an
 * allocation, from the runtime; ignored in kernel capture. */
void memprof_append(uint32_t buffer, struct memprof_record *record, value callstack);
/* Records an event of a followed block; locks the domain's buffer itself. */
void memprof_append_follow(uint32_t domain, value id, enum memprof_record_kind kind);
/* Flushes when the oldest record of the domain's buffer waits for long. */
void memprof_batch_minor_gc_ended(uint32_t domain, uint64_t now_ns);
/* In a forked child: the unflushed records are the parent's. */
void memprof_batch_forget(void);

#endif
