/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampled blocks that live, by address, and the filter that tells most others apart.
 *
 * No locks: this is used in the middle of malloc and free of any thread, under whatever
 * locks the program holds. One thread at a time has to do with an address: who has just got it from
 * the C library, or is about to give it back.
 */
#ifndef MEMPROF_SAMPLED_BLOCKS_H
#define MEMPROF_SAMPLED_BLOCKS_H

#include <stdint.h>

#define SAMPLED_FILTER_BITS 15

/* By hash: how many sampled blocks there are, 255 and more as 255. */
extern uint8_t memprof_sampled_filter[1 << SAMPLED_FILTER_BITS];

static inline uint64_t memprof_hash_of_block(const void *block)
{
	return (uint64_t)(uintptr_t)block * 0x9e3779b97f4a7c15u;
}

static inline int memprof_may_be_sampled(const void *block)
{
	uint64_t place = memprof_hash_of_block(block) >> (64 - SAMPLED_FILTER_BITS);

	return __atomic_load_n(&memprof_sampled_filter[place], __ATOMIC_RELAXED) != 0;
}

/* 0 when there is no room. number: not 0. */
int memprof_sampled_add(const void *block, uint64_t number);
/* Its number, 0 when it is none of them; it is no longer one then. */
uint64_t memprof_sampled_take(const void *block);
/* While nobody samples. A block that another thread adds meanwhile may stay. */
void memprof_sampled_clear(void);

#endif
