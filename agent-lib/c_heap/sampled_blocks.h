/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampled blocks that live, by address, and the filter that tells most others apart: a count
 * for each region of memory. What a program frees lies near what it has freed before, so that a few
 * lines of the processor's cache have what it asks for; by a hash of the address each free would
 * miss that cache.
 *
 * No locks: this is used in the middle of malloc and free of any thread, under whatever
 * locks the program holds. One thread at a time has to do with an address: who has just got it from
 * the C library, or is about to give it back.
 */
#ifndef MEMPROF_SAMPLED_BLOCKS_H
#define MEMPROF_SAMPLED_BLOCKS_H

#include <stdint.h>

#define SAMPLED_REGION_BITS 12 /* bytes of a region */
#define SAMPLED_REGIONS 16384u /* then they have the counts of others */

/* Number of sampled blocks in each region, at most 255. */
extern uint8_t memprof_sampled_regions[SAMPLED_REGIONS];

static inline uint8_t *memprof_region_of(const void *block)
{
	return &memprof_sampled_regions[((uintptr_t)block >> SAMPLED_REGION_BITS) %
					SAMPLED_REGIONS];
}

static inline int memprof_may_be_sampled(const void *block)
{
	return __atomic_load_n(memprof_region_of(block), __ATOMIC_RELAXED) != 0;
}

/* 0 when there is no room. number: not 0. */
int memprof_sampled_add(const void *block, uint64_t number);
/* Its number, 0 when it is none of them; it is no longer one then. */
uint64_t memprof_sampled_take(const void *block);
/* While nobody samples. A block that another thread adds meanwhile may stay. */
void memprof_sampled_clear(void);

#endif
