/* SPDX-License-Identifier: Apache-2.0 */
#include "packed.h"

/* A thread, an allocation with a wide size, and frames that are all far. */
#define MAX_RECORD_WORDS (2u + 5u + 3u * MEMPROF_PACKED_FRAMES)
#define MAX_BATCH_NS ((uint64_t)UINT32_MAX * MEMPROF_PACKED_TIME_NS)

/* What the batch's next record is told apart from. */
struct packer {
	uint64_t last_sample;
	uint32_t tid;
	uint32_t depth;
	value slots[MEMPROF_PACKED_FRAMES]; /* of the last callstack, outermost first */
};

static struct packer packers[MEMPROF_BUFFERS];

static int is_alloc(uint32_t kind) { return kind <= MEMPROF_ALLOC_MAJOR; }

static uint32_t *put(uint32_t *to, uint64_t word)
{
	*to = (uint32_t)word;
	return to + 1;
}

static uint32_t *put_wide(uint32_t *to, uint64_t number)
{
	return put(put(to, number), number >> 32);
}

/* ------------------------------------------------------------------ callstacks */

/* A slot of a callstack is an address with bit 0 set: a frame descriptor, whose first
 * word is the return address, or, with bit 1 set too, a debuginfo. */
static int is_debuginfo(value slot) { return (slot & 2) != 0; }

static uint64_t address_of(value slot)
{
	uintptr_t address = (uintptr_t)slot & ~(uintptr_t)3;

	return is_debuginfo(slot) ? address : *(const uint64_t *)address;
}

static uint32_t *put_frame(uint32_t *to, uint64_t address, uint64_t base)
{
	int64_t distance = (int64_t)(address - base);

	if (distance > INT32_MIN && distance <= INT32_MAX)
		return put(to, (uint64_t)distance);
	return put_wide(put(to, MEMPROF_PACKED_FAR), address);
}

/* Appends the frames that the callstack before did not have; *bits: what the head says. */
static uint32_t *put_callstack(uint32_t *to, struct packer *packer, uint64_t base, value callstack,
			       uint32_t *bits)
{
	uint64_t length = *((const uint64_t *)callstack - 1) >> 10;
	uint32_t depth = length < MEMPROF_PACKED_FRAMES ? (uint32_t)length : MEMPROF_PACKED_FRAMES;
	const value *outermost = (const value *)callstack + depth - 1;
	uint32_t shared = 0;

	while (shared < depth && shared < packer->depth &&
	       outermost[-(intptr_t)shared] == packer->slots[shared])
		shared++;
	for (uint32_t i = shared; i < depth; i++) {
		packer->slots[i] = outermost[-(intptr_t)i];
		to = put_frame(to, address_of(packer->slots[i]), base);
	}
	packer->depth = depth;
	*bits = MEMPROF_PACKED_SHARED(shared) | MEMPROF_PACKED_NEW(depth - shared);
	if (depth > 0 && is_debuginfo(packer->slots[depth - 1]))
		*bits |= MEMPROF_PACKED_DEBUGINFO;
	if (depth == MEMPROF_PACKED_FRAMES)
		*bits |= MEMPROF_PACKED_CUT;
	return to;
}

/* ------------------------------------------------------------------ records */

static uint32_t *put_alloc(uint32_t *to, struct packer *packer, const struct memprof_record *record,
			   uint64_t base, value callstack)
{
	uint32_t *head = to++;
	uint32_t bits;

	*head = MEMPROF_ORIGIN_KIND(record->origin) |
		MEMPROF_PACKED_SOURCE(MEMPROF_ORIGIN_SOURCE(record->origin));
	if (record->size_words > UINT32_MAX) {
		*head |= MEMPROF_PACKED_WIDE;
		to = put_wide(to, record->size_words);
	} else {
		to = put(to, record->size_words);
	}
	to = put(to, record->n_samples);
	to = put_callstack(to, packer, base, callstack, &bits);
	*head |= bits;
	packer->last_sample = record->sample_id;
	return to;
}

static uint32_t *put_follow(uint32_t *to, const struct packer *packer,
			    const struct memprof_record *record, uint32_t id_step)
{
	uint64_t behind = packer->last_sample - record->sample_id;
	uint32_t kind = MEMPROF_ORIGIN_KIND(record->origin);

	if (behind % id_step == 0 && behind / id_step <= MEMPROF_PACKED_MAX_BEHIND)
		return put(to, kind | MEMPROF_PACKED_BEHIND(behind / id_step));
	return put_wide(put(to, kind | MEMPROF_PACKED_WIDE), record->sample_id);
}

int memprof_packed_has_room(const struct memprof_batch_buffer *buffer, uint64_t time_ns)
{
	return buffer->packed_words <= MEMPROF_PACKED_WORDS - MAX_RECORD_WORDS &&
	       time_ns - buffer->packed.head.time_ns <= MAX_BATCH_NS;
}

void memprof_packed_begin(uint32_t index, const struct memprof_record *record)
{
	struct memprof_batch_buffer *buffer = &memprof_agent_control.buffers[index];
	struct packer *packer = &packers[index];

	buffer->packed.head.time_ns = record->time_ns;
	buffer->packed.head.base_address = (uint64_t)(uintptr_t)caml_callback_exn;
	buffer->packed.head.id_step = memprof_sample_id_step();
	packer->tid = 0;
	packer->depth = 0;
	packer->last_sample = memprof_last_sample_id(index);
	if (is_alloc(MEMPROF_ORIGIN_KIND(record->origin)))
		packer->last_sample = record->sample_id - memprof_sample_id_step();
	buffer->packed.head.last_sample = packer->last_sample;
}

void memprof_packed_append(uint32_t index, const struct memprof_record *record, value callstack)
{
	struct memprof_batch_buffer *buffer = &memprof_agent_control.buffers[index];
	const struct memprof_packed_head *head = &buffer->packed.head;
	struct packer *packer = &packers[index];
	uint32_t *to = buffer->packed.words + buffer->packed_words;
	uint32_t tid = MEMPROF_ORIGIN_TID(record->origin);

	if (tid != packer->tid) {
		to = put(put(to, tid), MEMPROF_PACKED_THREAD);
		packer->tid = tid;
	}
	to = put(to, (record->time_ns - head->time_ns) / MEMPROF_PACKED_TIME_NS);
	if (is_alloc(MEMPROF_ORIGIN_KIND(record->origin)))
		to = put_alloc(to, packer, record, head->base_address, callstack);
	else
		to = put_follow(to, packer, record, head->id_step);
	__atomic_store_n(&buffer->packed_words, (uint32_t)(to - buffer->packed.words),
			 __ATOMIC_RELEASE);
}
