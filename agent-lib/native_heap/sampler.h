/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples bytes of the native heap, each independently with probability 1 / interval. A thread
 * counts down to the next sampled byte, so that a call without one costs a subtraction.
 */
#ifndef MEMPROF_C_SAMPLER_H
#define MEMPROF_C_SAMPLER_H

#include <stdint.h>

struct memprof_c_thread {
	uint64_t left;	  /* bytes up to and including the next sampled one */
	uint64_t random;  /* 0: not seeded */
	uint32_t session; /* the session that `left` belongs to */
};

/* Initial-exec: no call of the dynamic linker, which may allocate, for a thread's first use. */
extern __thread struct memprof_c_thread memprof_c_thread;
/* The session that samples, 0: none. */
extern volatile uint32_t memprof_c_session;

/* Counts these bytes and returns true if none of them is sampled. */
static inline int memprof_c_passes(uint64_t bytes)
{
	struct memprof_c_thread *thread = &memprof_c_thread;

	if (__builtin_expect(thread->session != memprof_c_session || bytes >= thread->left, 0))
		return 0;
	thread->left -= bytes;
	return 1;
}

/* Must be called while no session runs. */
void memprof_c_sampler_set(uint64_t interval);
/* Number of sampled bytes, in the running session, of a block for which memprof_c_passes() was
 * false; for a large block 1 if any byte is sampled. */
uint32_t memprof_c_samples(uint64_t bytes);
/* Number of bytes that such a block stands for, given its number of sampled bytes. */
uint64_t memprof_c_weight(uint64_t bytes, uint32_t n_samples);

#endif
