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
/* Call in a forked child: makes its memory its own again. */
void memprof_share_forked(void);

#endif
