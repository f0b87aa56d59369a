/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches handed over in shared memory (include/memprof_share_abi.h) instead of by the probe, for a
 * reader without privileges.
 */
#ifndef MEMPROF_SHARE_H
#define MEMPROF_SHARE_H

/* Call at load: takes the memory that the environment names. The session starts before any OCaml
 * code, in the runtime's call of sigaltstack(). */
void memprof_share_load(void);
/* The same in a program without an OCaml runtime: reports its name. */
void memprof_share_no_runtime(void);
/* Call in a forked child: makes its memory its own again. Its session is over, unless it gets
 * memory to share from the reader (memprof_share_join). */
void memprof_share_forked(void);
/* Call where a session is about to end. Returns true if the session continues, because this is a
 * forked child that has just received memory from the reader; then no data of the session is
 * lost. */
int memprof_share_join(void);
/* True while no session runs, if a reader has ordered memory of a running program (struct
 * memprof_share_order), if such an order is over, or if a session is requested that is not for the
 * reader of the shared memory. */
int memprof_share_needs_care(void);
/* Call at the end of a minor collection in this case: shares memory, or takes the data back. */
void memprof_share_care(void);
/* True if memory is shared with another reader than the agent's owner. A session must not begin
 * before memprof_share_care() has taken the data back. */
int memprof_share_is_of_another(void);
/* Call before a session begins. */
void memprof_share_begins_session(void);
/* Call when a session has ended and none is requested: the agent's data is its own again. */
void memprof_share_leave(void);

#endif
