/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live sampled blocks, by address, and the filter that rejects most others: a count for each
 * region of memory. Programs free blocks near those that they freed before, so a few cache lines
 * suffice; with a hash of the address each free would miss the cache.
 *
 * No locks: this runs inside malloc and free of any thread, under any locks that the program holds.
 * Only one thread at a time uses an address: the one that has just got it from the C library, or is
 * about to return it.
 */
#ifndef MEMPROF_SAMPLED_BLOCKS_H
#define MEMPROF_SAMPLED_BLOCKS_H

#include <stdint.h>

#define SAMPLED_REGION_BITS 12 /* bytes of a region */
#define SAMPLED_REGIONS 16384u /* regions that collide share a count */

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

/* Returns 0 if there is no room. number: not 0. */
int memprof_sampled_add(const void *block, uint64_t number);
/* Removes the block and returns its number; 0 if it is not a sampled one. */
uint64_t memprof_sampled_take(const void *block);
/* Call it while no thread samples. A block that another thread adds meanwhile may remain. */
void memprof_sampled_clear(void);

#endif
