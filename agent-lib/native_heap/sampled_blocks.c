/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing. Each address has a limited number of places, so that neither adding nor removing
 * a block moves others:
 *
 *   add b, home 3        3: a   4: (gone)   5: free      claims 4: BUSY, number, then b
 *   take b               3: a   4: b                     gone again; searches for others skip it
 */
#include "sampled_blocks.h"

#include <stddef.h>

#define FILTER_BITS 15
#define TABLE_BITS 16
#define MAX_PLACES 32u

/* Keys that are not addresses of blocks. */
#define FREE 0u
#define GONE 1u
#define BUSY 2u

struct sampled {
	uint64_t key;
	uint64_t number;
};

uint8_t memprof_sampled_regions[SAMPLED_REGIONS];
/* Rejects most other blocks in regions that have a sampled one. Count by hash, at most 255. */
static uint8_t filter[1 << FILTER_BITS];
static struct sampled table[1 << TABLE_BITS];
static int used; /* since it was cleared */

static uint64_t hash_of(const void *block)
{
	return (uint64_t)(uintptr_t)block * 0x9e3779b97f4a7c15u;
}

static struct sampled *place(uint64_t hash, uint32_t i)
{
	return &table[((hash >> (64 - TABLE_BITS)) + i) & ((1u << TABLE_BITS) - 1)];
}

static uint8_t *filter_of(uint64_t hash) { return &filter[hash >> (64 - FILTER_BITS)]; }

/* A count of 255 stays, because the exact number is unknown. */
static void add_to(uint8_t *count, int change)
{
	uint8_t now = __atomic_load_n(count, __ATOMIC_RELAXED);

	do {
		if (now == 255 || (now == 0 && change < 0))
			return;
	} while (!__atomic_compare_exchange_n(count, &now, (uint8_t)(now + change), 1,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static void count_block(const void *block, int change)
{
	add_to(memprof_region_of(block), change);
	add_to(filter_of(hash_of(block)), change);
}

/* Clears saturated counts; the blocks that they counted are gone. */
static void forget_full_counts(uint8_t *counts, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		uint8_t full = 255;

		__atomic_compare_exchange_n(&counts[i], &full, 0, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	}
}

static int claim(struct sampled *at)
{
	uint64_t key = __atomic_load_n(&at->key, __ATOMIC_RELAXED);

	return (key == FREE || key == GONE) &&
	       __atomic_compare_exchange_n(&at->key, &key, BUSY, 0, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

int memprof_sampled_add(const void *block, uint64_t number)
{
	uint64_t hash = hash_of(block);
	uint32_t i;

	__atomic_store_n(&used, 1, __ATOMIC_RELAXED);
	for (i = 0; i < MAX_PLACES; i++) {
		struct sampled *at = place(hash, i);

		if (!claim(at))
			continue;
		at->number = number;
		__atomic_store_n(&at->key, (uint64_t)(uintptr_t)block, __ATOMIC_RELEASE);
		count_block(block, 1);
		return 1;
	}
	return 0;
}

uint64_t memprof_sampled_take(const void *block)
{
	uint64_t hash = hash_of(block);
	uint32_t i;

	if (__atomic_load_n(filter_of(hash), __ATOMIC_RELAXED) == 0)
		return 0;
	for (i = 0; i < MAX_PLACES; i++) {
		struct sampled *at = place(hash, i);
		uint64_t key = __atomic_load_n(&at->key, __ATOMIC_ACQUIRE);
		uint64_t number;

		if (key == FREE)
			return 0;
		if (key != (uint64_t)(uintptr_t)block)
			continue;
		number = at->number;
		if (!__atomic_compare_exchange_n(&at->key, &key, GONE, 0, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
			return 0; /* cleared meanwhile */
		count_block(block, -1);
		return number;
	}
	return 0;
}

/* A place to which another thread is adding a block stays and is counted, because no place may have
 * two writers. */
void memprof_sampled_clear(void)
{
	size_t i;

	if (!__atomic_exchange_n(&used, 0, __ATOMIC_RELAXED))
		return;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint64_t key = __atomic_load_n(&table[i].key, __ATOMIC_RELAXED);

		if (key == FREE || key == BUSY ||
		    !__atomic_compare_exchange_n(&table[i].key, &key, FREE, 0, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
			continue;
		if (key != GONE)
			count_block((const void *)key, -1);
	}
	forget_full_counts(memprof_sampled_regions, sizeof(memprof_sampled_regions));
	forget_full_counts(filter, sizeof(filter));
}
