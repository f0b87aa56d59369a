/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "share_reserve.h"

#include <string.h>
#include <sys/mman.h>

static char *reserve;

static void *map(void *place, uint64_t bytes, int flags, int fd, uint64_t offset)
{
	void *at = mmap(place, bytes, PROT_READ | PROT_WRITE, flags | (place ? MAP_FIXED : 0), fd,
			(off_t)offset);

	return at == MAP_FAILED ? NULL : at;
}

void *memprof_map_private(void *place, uint64_t bytes)
{
	return map(place, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void *memprof_map_shared(void *place, uint64_t bytes, int fd, uint64_t offset)
{
	return map(place, bytes, MAP_SHARED, fd, offset);
}

int memprof_reserve(uint64_t bytes)
{
	reserve = memprof_map_private(NULL, bytes);
	return reserve != NULL;
}

void *memprof_reserved(uint64_t offset) { return reserve + offset; }

/* A process with nearly the maximum number of mappings may map, but not move: a move may need four
 * more for a moment. */
void memprof_move_reserved(void *place, uint64_t offset, uint64_t bytes)
{
	void *reserved = memprof_reserved(offset);

	if (mremap(reserved, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place)
		return;
	if (memprof_map_private(place, bytes))
		memcpy(place, reserved, bytes);
	memprof_drop_reserved(offset, bytes);
}

void memprof_drop_reserved(uint64_t offset, uint64_t bytes)
{
	(void)munmap(memprof_reserved(offset), bytes);
}
