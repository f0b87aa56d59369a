/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of memory that the agent shares with its reader (include/memprof_share_abi.h). */
#ifndef MEMPROF_SHARE_RING_H
#define MEMPROF_SHARE_RING_H

#include <stdint.h>

#include "../bpf/events.h"
#include "include/memprof_share_abi.h"

/* Null: nothing is shared, and the probe is hit. */
extern struct memprof_share *memprof_share;

/* A complete packed batch. Without words it is an announcement. */
struct memprof_handed {
	uint32_t tid;
	uint32_t generation;
	uint32_t buffer;
	uint32_t words;
	uint64_t time_ns;
	uint64_t first_seq;
};

/* Maps the head and the ring of such memory, whose ring has this size, and a reserve for all of it
 * (share_reserve.h); returns false if that fails. While nothing is shared. */
int memprof_share_map(int fd, uint64_t ring_bytes);
/* After that, before any batch: hands batches over in it. */
void memprof_share_begin(void);
/* Moves the reserve to the place of both: a thread that is about to hand a batch over writes into
 * that. */
void memprof_share_end(void);
/* Copies a batch into the ring if there is room. Callable from any thread. */
void memprof_share_hand_over(const struct memprof_handed *handed,
			     const struct memprof_packed *batch);

#endif
