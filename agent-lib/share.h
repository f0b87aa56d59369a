/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches handed over in shared memory (include/memprof_share_abi.h) instead of by the probe, for a
 * reader without privileges.
 */
#ifndef MEMPROF_SHARE_H
#define MEMPROF_SHARE_H

/* Call at load: takes the memory that the environment names. The session starts before the first
 * OCaml code, in the runtime's call of sigaltstack(). */
void memprof_share_load(void);
/* The same in a program without an OCaml runtime: reports its name. */
void memprof_share_no_runtime(void);
/* Call in a forked child: makes its memory its own again. Its session is over, unless it gets
 * memory to share from the reader (memprof_share_join). */
void memprof_share_forked(void);
/* Call where a session is about to end. Returns whether it goes on, because this is a forked child
 * that has just got memory from the reader: nothing of it is lost. */
int memprof_share_join(void);
/* True without a session if a reader has ordered memory of a program that runs (struct
 * memprof_share_order), or if such an order is over. */
int memprof_share_ordered(void);
/* Call at the end of a minor collection in this case: makes the memory, or takes it back. */
void memprof_share_obey(void);
/* Call before a session begins: if it is not for the reader of the shared memory, leaves that. */
void memprof_share_check_reader(void);
/* Call when a session has ended: the agent's data is its own again. */
void memprof_share_leave(void);

#endif
