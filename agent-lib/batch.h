/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control block and the batches being filled: one for the whole program in OCaml
 * 4, one for each domain in OCaml 5. All calls under the runtime lock, in OCaml 5 that
 * of the domain whose buffer it is.
 */
#ifndef MEMPROF_BATCH_H
#define MEMPROF_BATCH_H

#include <stdint.h>

#include "include/memprof_agent_abi.h"
#include "runtime_abi.h"

extern struct memprof_agent_control memprof_agent_control;

/* See stubs_x86_64.S. */
union memprof_activity {
	uint32_t any;
	struct {
		uint16_t watchers; /* written by the kernel */
		uint16_t sampling; /* written by the agent */
	};
};
extern volatile union memprof_activity memprof_activity;

uint64_t memprof_now_ns(void);
/* Of this domain. */
uint32_t memprof_buffer_index(void);
/* The buffer, from now on one of those used. */
struct memprof_batch_buffer *memprof_use_buffer(uint32_t index);
/* The next sample of a buffer: unique, not 0. */
uint64_t memprof_new_sample_id(uint32_t buffer);
/* The one that it gave last; they are 1 << shift apart. */
uint64_t memprof_last_sample_id(uint32_t buffer);
uint32_t memprof_sample_id_shift(void);
/* Appends one record, its time and thread filled in, and flushes when the batch is full.
 * callstack: of an allocation, as the runtime gives it; only looked at when the runtime
 * captures. */
void memprof_append(uint32_t buffer, struct memprof_record *record, value callstack);
/* A buffer that is empty takes records of the session that runs. */
void memprof_begin_batch(struct memprof_batch_buffer *buffer);
/* Hands the batch over. Without a watcher the records are discarded, numbers kept. */
void memprof_flush(uint32_t buffer);
/* Flushes when the oldest record waits for long. */
void memprof_batch_minor_gc_ended(uint32_t buffer, uint64_t now_ns);
/* Tells the watcher, by a batch of no records, that this session runs. */
void memprof_announce(uint32_t generation);
/* In a forked child: the unflushed records are the parent's. */
void memprof_batch_forget(void);

#endif
