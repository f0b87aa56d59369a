/* SPDX-License-Identifier: Apache-2.0 */
#include "share_ring.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "share_reserve.h"

struct memprof_share *memprof_share;
/* Mapped, shared or private; null before the first time. A thread may be in the middle of handing a
 * batch over when sharing ends, so both stay mapped. */
static struct memprof_share *head;
static char *ring;
static uint64_t ring_bytes; /* read once, because the reader may change it at any time */

/* Maps private memory where both will be. */
static int has_places(uint64_t bytes)
{
	char *other;

	if (!head)
		head = memprof_map_private(NULL, MEMPROF_SHARE_CONTROL);
	if (ring_bytes == bytes)
		return head != NULL;
	other = memprof_map_private(NULL, bytes);
	if (!other)
		return 0;
	ring = other;
	ring_bytes = bytes;
	return head != NULL;
}

static void unmap(void)
{
	memprof_move_reserved(head, 0, MEMPROF_SHARE_CONTROL);
	memprof_move_reserved(ring, MEMPROF_SHARE_RING, ring_bytes);
}

int memprof_share_map(int fd, uint64_t bytes)
{
	if (!has_places(bytes) || !memprof_reserve(MEMPROF_SHARE_RING + bytes))
		return 0;
	if (memprof_map_shared(head, MEMPROF_SHARE_CONTROL, fd, 0) &&
	    memprof_map_shared(ring, ring_bytes, fd, MEMPROF_SHARE_RING))
		return 1;
	unmap();
	memprof_drop_reserved(MEMPROF_SHARE_CONTROL, MEMPROF_SHARE_RING - MEMPROF_SHARE_CONTROL);
	return 0;
}

void memprof_share_begin(void) { memprof_share = head; }

void memprof_share_end(void)
{
	memprof_share = NULL;
	unmap();
}

#define PATIENCE 1000 /* yields to writers, each of which copies a batch */

static int lock_ring(void)
{
	for (int i = 0; __atomic_exchange_n(&head->lock, 1, __ATOMIC_ACQUIRE) != 0; i++) {
		if (i == PATIENCE)
			return 0;
		sched_yield();
	}
	return 1;
}

static void unlock_ring(void) { __atomic_store_n(&head->lock, 0, __ATOMIC_RELEASE); }

/* Reserves this many bytes in one piece; returns null if there is no room. *end: the position after
 * it. */
static char *room(uint64_t bytes, uint64_t *end)
{
	uint64_t at = head->written;
	uint64_t left = ring_bytes - at % ring_bytes;
	uint64_t skipped = left < bytes ? left : 0;
	uint64_t used = at - __atomic_load_n(&head->read, __ATOMIC_ACQUIRE);

	if (bytes > ring_bytes || used > ring_bytes || skipped + bytes > ring_bytes - used)
		return NULL;
	if (skipped)
		*(uint64_t *)(ring + at % ring_bytes) = MEMPROF_SHARE_SKIP;
	*end = at + skipped + bytes;
	return ring + (at + skipped) % ring_bytes;
}

void memprof_share_hand_over(const struct memprof_handed *handed,
			     const struct memprof_packed *batch)
{
	size_t batch_bytes = sizeof(batch->head) + handed->words * sizeof(batch->words[0]);
	size_t event_bytes = offsetof(struct memprof_packed_batch, packed) + batch_bytes;
	uint64_t bytes = (sizeof(uint64_t) + event_bytes + 7) / 8 * 8, end = 0;
	struct memprof_packed_batch *event;
	char *place = NULL;

	if (lock_ring()) {
		place = room(bytes, &end);
		if (!place)
			unlock_ring();
	}
	if (!place)
		return;
	*(uint64_t *)place = event_bytes;
	event = (struct memprof_packed_batch *)(place + sizeof(uint64_t));
	event->header = (struct memprof_event_header){.kind = MEMPROF_EVENT_PACKED,
						      .tgid = head->pid,
						      .tid = handed->tid,
						      .time_ns = handed->time_ns};
	event->first_seq = handed->first_seq;
	event->generation = handed->generation;
	event->n_words = handed->words;
	event->buffer = handed->buffer;
	event->reserved = 0;
	memcpy(&event->packed, batch, batch_bytes);
	__atomic_store_n(&head->written, end, __ATOMIC_RELEASE);
	unlock_ring();
}
