/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of the program for a heap snapshot: made, and cleaned up after. */
#ifndef MEMPROF_SNAPSHOT_H
#define MEMPROF_SNAPSHOT_H

/* The copy that the program may still have as a child, as it numbers it; 0: none. */
extern volatile int memprof_snapshot_child;

/* Takes leave of it, when it has ended. Under the runtime lock. */
void memprof_snapshot_reap(void);
/* In a forked child: the copy is the parent's. */
void memprof_snapshot_forget(void);

#endif
