/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the native heap: malloc and its relatives are replaced in the slots through which the
 * program's files call them. Off, with all slots untouched, until a watcher requests it
 * (include/memprof_native_heap_abi.h).
 */
#ifndef MEMPROF_NATIVE_HEAP_H
#define MEMPROF_NATIVE_HEAP_H

#include "blocking.h"
#include "native_blocks.h"
#include "linker.h"

/* True if memprof_c_heap_check() has work to do; costs nothing. */
static inline int memprof_c_heap_needs_care(void)
{
	return memprof_c_heap.requested_interval != 0 || memprof_c_heap.slots != 0 ||
	       memprof_blocking_hooks != 0 || !memprof_linker_has_been_looked_at;
}
/* Starts and stops sessions as requested, and searches for new libraries. Called at the end of a
 * minor collection. wanted: a watcher is present and the lease runs. */
void memprof_c_heap_check(int wanted);
/* Ensures that no inspection of the program's files is in progress in a forking thread, until one
 * of the next two calls. */
void memprof_c_heap_before_fork(void);
void memprof_c_heap_after_fork(void);
/* Takes the turn, which one thread at a time has: a thread that changes slots, or one that forks.
 * Returns 0 if another thread has it. */
int memprof_c_heap_take_turn(void);
void memprof_c_heap_end_turn(void);
/* Called in a forked child, which no one watches. Slots stay set and lead to the C library. */
void memprof_c_heap_forget(void);

#endif
