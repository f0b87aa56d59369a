/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a copy of the program for a heap snapshot, and cleans up after it. */
#ifndef MEMPROF_SNAPSHOT_H
#define MEMPROF_SNAPSHOT_H

#include <stdint.h>

#include "memprof_snapshot_abi.h"
#include "runtime_abi.h"

/* The copy that may still be a child of the program, in the program's numbering; 0: none. */
extern volatile int memprof_snapshot_child;
extern struct memprof_snapshot memprof_snapshot;

/* Reaps the copy if it has ended. Must hold the runtime lock. */
void memprof_snapshot_reap(void);
/* Called in a forked child: the copy, and threads that wait for one, belong to the parent. */
void memprof_snapshot_forget(void);
void memprof_sample_point_forget(void);

/* Waits until the watcher has taken a snapshot at this point, if it wants snapshots of this kind
 * (enum memprof_point_kind). Returns 0 if none was taken. Must be called in a function that OCaml
 * code has called. */
int memprof_snapshot_point(uint32_t kind, const char *name);
/* Does the same when the program exits. */
void memprof_snapshot_at_exit(void);

extern struct memprof_sample_point memprof_sample_point;
void memprof_wait_at_sample_point(void);
/* Lets a watcher without a probe stop this thread. To be called in a callback of the runtime. */
static inline void memprof_at_sample_point(void)
{
	if (__builtin_expect(memprof_sample_point.wanted != 0, 0))
		memprof_wait_at_sample_point();
}

/* Called at the safe point. While no domain runs, calls copy with all domains, which clones, and
 * returns its result. Returns -ETIME if the domains did not stop together before that time
 * (CLOCK_MONOTONIC). */
long memprof_copy_domains(long (*copy)(domain_state **domains, int count), uint64_t until_ns);

#endif
