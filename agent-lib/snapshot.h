/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of the program for a heap snapshot: made, and cleaned up after. */
#ifndef MEMPROF_SNAPSHOT_H
#define MEMPROF_SNAPSHOT_H

#include <stdint.h>

#include "memprof_snapshot_abi.h"

/* The copy that the program may still have as a child, as it numbers it; 0: none. */
extern volatile int memprof_snapshot_child;
extern struct memprof_snapshot memprof_snapshot;

/* Takes leave of it, when it has ended. Under the runtime lock. */
void memprof_snapshot_reap(void);
/* In a forked child: the copy is the parent's. */
void memprof_snapshot_forget(void);

/* Waits until the watcher has taken a snapshot at this point, if it wants those of this kind
 * (enum memprof_point_kind); 0: there is none. In a function that OCaml code has called. */
int memprof_snapshot_point(uint32_t kind, const char *name);
/* The same when the program exits. */
void memprof_snapshot_at_exit(void);

#endif
