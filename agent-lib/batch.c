/* SPDX-License-Identifier: Apache-2.0 */
#include "batch.h"

#include "packed.h"

/* Age of the oldest record at which a minor collection flushes. In kernel capture callstacks wait
 * for their records; packed batches are better when they are large. */
#define FLUSH_AGE_NS 10000000u
#define PACKED_FLUSH_AGE_NS 100000000u

static void plain_append(uint32_t index, struct memprof_record *record)
{
	struct memprof_batch_buffer *buffer = &memprof_buffers[index];

	record->time_ns = memprof_now_ns();
	if (buffer->count == 0)
		memprof_begin_batch(buffer, MEMPROF_BATCH_PLAIN);
	buffer->records[buffer->count] = *record;
	__atomic_store_n(&buffer->count, buffer->count + 1, __ATOMIC_RELEASE);
	if (buffer->count >= MEMPROF_BATCH_RECORDS)
		memprof_flush(index);
}

void memprof_append(uint32_t index, struct memprof_record *record, value callstack)
{
	memprof_use_buffer(index);
	memprof_end_batch_of_before(index);
	record->origin |= MEMPROF_ORIGIN(memprof_current_tid(), 0, 0);
	if (memprof_batch_format(&memprof_buffers[index]) == MEMPROF_BATCH_PACKED)
		memprof_packed_append(index, record, callstack);
	else
		plain_append(index, record);
}

void memprof_append_follow(uint32_t domain, value id, enum memprof_record_kind kind)
{
	struct memprof_record record = {
		.sample_id = (uint64_t)LONG_VAL(id),
		.origin = MEMPROF_ORIGIN(0, 0, kind),
	};
	uint32_t buffer = memprof_take_buffer(domain);

	memprof_append(buffer, &record, VAL_UNIT);
	memprof_give_back_buffer(buffer);
}

void memprof_batch_minor_gc_ended(uint32_t domain, uint64_t now_ns)
{
	uint32_t index = memprof_take_buffer(domain);
	const struct memprof_batch_buffer *buffer = &memprof_buffers[index];
	int packed = memprof_batch_format(buffer) == MEMPROF_BATCH_PACKED;
	uint64_t since_ns = packed ? buffer->packed.head.time_ns : buffer->records[0].time_ns;

	memprof_packed_minor_gc_ended(index, now_ns);
	if (buffer->count != 0 &&
	    now_ns - since_ns >= (packed ? PACKED_FLUSH_AGE_NS : FLUSH_AGE_NS))
		memprof_flush(index);
	memprof_give_back_buffer(index);
}

void memprof_batch_forget(void) { memprof_forget_buffers(); }
