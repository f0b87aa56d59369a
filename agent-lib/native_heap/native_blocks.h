/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of the native heap, as reported by the functions in slots: selects the sampled ones and
 * reports their events. */
#ifndef MEMPROF_C_BLOCKS_H
#define MEMPROF_C_BLOCKS_H

#include <stdint.h>

#include "include/memprof_native_heap_abi.h"

/* Shared with the watcher. */
extern struct memprof_c_heap memprof_c_heap;

/* Called by the hooks: a block of this size was allocated, and some of its bytes may be sampled.
 * Returns the block, or null if there was no memory. */
void *memprof_c_allocated(void *block, uint64_t bytes);
/* Called before a block is freed. number: its sample number; 0: it is not sampled. */
void memprof_c_freed(const void *block, uint64_t number);
/* The block was not freed after all: undoes memprof_c_freed(). */
void memprof_c_still_there(const void *block, uint64_t number);

/* See stubs_x86_64.S. */
void memprof_c_alloc_probe(const void *block, uint64_t bytes, uint64_t weight,
			   const struct memprof_c_event *event);
void memprof_c_free_probe(const void *block, uint64_t zero, uint64_t also,
			  const struct memprof_c_event *event);

/* Forgets all blocks without reporting their ends. Must be called while no session runs. */
void memprof_c_forget_blocks(void);

#endif
