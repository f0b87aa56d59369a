/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private memory that replaces shared memory when sharing ends. It is mapped before sharing begins:
 * a limit of address space (RLIMIT_AS) that is lowered meanwhile refuses every new mapping, even in
 * place of another, but not that a mapping is moved.
 */
#ifndef MEMPROF_SHARE_RESERVE_H
#define MEMPROF_SHARE_RESERVE_H

#include <stdint.h>

/* Maps memory at that place, or anywhere if it is null; returns null if that fails. */
void *memprof_map_private(void *place, uint64_t bytes);
void *memprof_map_shared(void *place, uint64_t bytes, int fd, uint64_t offset);

/* Maps a reserve for shared memory of that size; returns false if that fails. Each part of it is
 * used once. */
int memprof_reserve(uint64_t bytes);
/* The part of the reserve for this offset of the shared memory. */
void *memprof_reserved(uint64_t offset);
/* Moves a part to a place that is mapped, which then has its contents. */
void memprof_move_reserved(void *place, uint64_t offset, uint64_t bytes);
/* Unmaps a part that is not needed. */
void memprof_drop_reserved(uint64_t offset, uint64_t bytes);

#endif
