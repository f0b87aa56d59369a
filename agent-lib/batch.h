/* SPDX-License-Identifier: Apache-2.0 */
/* The control block and the batch being filled. All calls under the runtime lock. */
#ifndef MEMPROF_BATCH_H
#define MEMPROF_BATCH_H

#include <stdint.h>

#include "include/memprof_agent_abi.h"

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
/* Appends one record, and flushes when the batch is full. */
void memprof_append(uint32_t kind, uint32_t source, uint64_t sample_id, uint64_t size_words,
		    uint64_t n_samples);
/* Hands the batch over. Without a watcher the records are discarded, numbers kept. */
void memprof_flush(void);
/* Flushes when the oldest record waits for longer than 10 ms. */
void memprof_flush_old(uint64_t now_ns);
/* Tells the watcher, by a batch of no records, that the current session runs. */
void memprof_announce(void);
/* In a forked child: the unflushed records are the parent's. */
void memprof_batch_forget(void);

#endif
