/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control block and the batches being filled. OCaml 4 has one batch for the whole program,
 * OCaml 5 one for each domain; domains of high indexes share the last one. All calls require the
 * runtime lock, in OCaml 5 that of the buffer's domain. Calls that take a buffer's number also must
 * be between memprof_take_buffer and memprof_give_back_buffer.
 */
#ifndef MEMPROF_BUFFERS_H
#define MEMPROF_BUFFERS_H

#include <stdint.h>

#include "include/memprof_agent_abi.h"
#include "runtime_abi.h"

extern struct memprof_agent_control memprof_agent_control;
/* The control block points to these buffers. */
extern struct memprof_batch_buffer memprof_buffers[MEMPROF_BUFFERS];
extern struct memprof_domain memprof_domains[MEMPROF_DOMAINS];

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

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
uint32_t memprof_current_tid(void); /* of the calling thread */
/* The index of this domain, below MEMPROF_DOMAINS. */
uint32_t memprof_domain_index(void);
/* Held while the memory behind the control block, domains and buffers is replaced (share.c), and by
 * whoever writes to them without being stopped for that: outside of callbacks and collections of a
 * session. Its holder waits for no other thread. */
void memprof_lock_data(void);
void memprof_unlock_data(void);
/* Returns the domain of this index and marks it as used. */
struct memprof_domain *memprof_use_domain(uint32_t index);
void memprof_use_buffer(uint32_t index);

void memprof_lock_shared_buffer(void);
void memprof_unlock_shared_buffer(void);
/* The buffer of a domain, which this thread owns until it gives it back. Nothing in between may
 * wait for another domain. */
static inline uint32_t memprof_take_buffer(uint32_t domain)
{
	if (LIKELY(domain < MEMPROF_SHARED_BUFFER))
		return domain;
	memprof_lock_shared_buffer();
	return MEMPROF_SHARED_BUFFER;
}
static inline void memprof_give_back_buffer(uint32_t buffer)
{
	if (UNLIKELY(buffer == MEMPROF_SHARED_BUFFER))
		memprof_unlock_shared_buffer();
}

/* Returns a new sample number for this buffer: unique, not 0. */
uint64_t memprof_new_sample_id(uint32_t buffer);
/* Returns the last sample number of this buffer; consecutive ones differ by 1 << shift. */
uint64_t memprof_last_sample_id(uint32_t buffer);
uint32_t memprof_sample_id_shift(void);
/* Flushes records of the previous session, because a batch belongs to one session. */
void memprof_end_batch_of_before(uint32_t buffer);
/* Prepares an empty buffer for records of the running session in this format. */
void memprof_begin_batch(struct memprof_batch_buffer *buffer, enum memprof_batch_format format);
/* The format of the batch that a buffer holds or, when it is empty, of its next one. */
enum memprof_batch_format memprof_batch_format(const struct memprof_batch_buffer *buffer);
/* Hands over the batch. Without a watcher the records are discarded, but their numbers are kept. */
void memprof_flush(uint32_t buffer);
void memprof_flush_domain(uint32_t domain);
/* Flushes all used buffers, when the program ends, on any thread. */
void memprof_flush_all(void);
/* Number of records so far, flushed or not. */
uint64_t memprof_records_of(uint32_t buffer);
/* Announces to the watcher, by a batch without records, that this session runs. */
void memprof_announce(uint32_t generation);
/* Called in a forked child: the unflushed records belong to the parent. */
void memprof_forget_buffers(void);

#endif
