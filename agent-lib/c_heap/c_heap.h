/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C memory followed: malloc and its like are seen through the slots by which the program's files
 * call them. Off, and no slot touched, unless a watcher asks (include/memprof_c_heap_abi.h).
 */
#ifndef MEMPROF_C_HEAP_H
#define MEMPROF_C_HEAP_H

#include "blocking.h"
#include "c_blocks.h"
#include "linker.h"

/* True if memprof_c_heap_check() has work to do; costs nothing. */
static inline int memprof_c_heap_needs_care(void)
{
	return memprof_c_heap.requested_interval != 0 || memprof_c_heap.slots != 0 ||
	       memprof_blocking_hooks != 0 || !memprof_linker_has_been_looked_at;
}
/* Begins and ends as asked, and looks for new libraries. At the end of a minor collection. wanted:
 * whether somebody watches and the lease runs. */
void memprof_c_heap_check(int wanted);
/* No look at the program's files is under way from one to the other, in a forking thread. */
void memprof_c_heap_before_fork(void);
void memprof_c_heap_after_fork(void);
/* In a forked child instead: nobody asks; slots stay as they are, and lead to the C library. */
void memprof_c_heap_forget(void);

#endif
