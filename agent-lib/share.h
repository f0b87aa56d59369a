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

#endif
