/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches handed over in shared memory (include/memprof_share_abi.h) instead of by the probe, for a
 * reader without privileges.
 */
#ifndef MEMPROF_SHARE_H
#define MEMPROF_SHARE_H

#include "buffers.h"
#include "include/memprof_share_abi.h"

/* Null: nothing is shared, and the probe is hit. */
extern struct memprof_share *memprof_share;

/* At load: takes the memory that the environment names. The session starts before the first OCaml
 * code, in the runtime's call of sigaltstack(). */
void memprof_share_load(void);
/* In a forked child: its memory is its own again. */
void memprof_share_forked(void);
/* At the normal end, after the last flush. */
void memprof_share_ended(void);
/* Copies a packed batch of so many words and records into the ring, or counts it as lost. Without
 * words it is an announcement. Any thread. */
void memprof_share_hand_over(const struct memprof_packed *batch, uint32_t words, uint64_t first_seq,
			     uint32_t generation, uint32_t buffer, uint32_t records);

#endif
