/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "buffers.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "share_ring.h"

extern void memprof_probe_batch(const void *records, uint32_t count, uint64_t first_seq,
				uint32_t generation, uint32_t buffer,
				enum memprof_batch_format format);

/* Each array has pages of its own, because a reader may share them (share.c). They are not in the
 * control block, whose initial values would make megabytes of the file. */
#define ON_PAGES(type, name, members, bytes)                                                       \
	union {                                                                                    \
		type members;                                                                      \
		char pages[bytes];                                                                 \
	} name __attribute__((aligned(MEMPROF_SHARE_PAGE)))

ON_PAGES(struct memprof_batch_buffer, memprof_buffer_pages, all[MEMPROF_BUFFERS],
	 MEMPROF_SHARE_BUFFERS_BYTES);
ON_PAGES(struct memprof_domain, memprof_domain_pages, all[MEMPROF_DOMAINS],
	 MEMPROF_SHARE_DOMAINS_BYTES);
extern struct memprof_batch_buffer memprof_buffers[MEMPROF_BUFFERS]
	__attribute__((alias("memprof_buffer_pages")));
extern struct memprof_domain memprof_domains[MEMPROF_DOMAINS]
	__attribute__((alias("memprof_domain_pages")));

ON_PAGES(struct memprof_agent_control, memprof_control_pages, control,
	 MEMPROF_SHARE_CONTROL_BYTES) = {
	.control = {
		.magic = MEMPROF_AGENT_MAGIC,
		.abi_version = MEMPROF_AGENT_ABI,
		.control_bytes = sizeof(struct memprof_agent_control),
		.buffer_bytes = sizeof(struct memprof_batch_buffer),
		.buffer_count = MEMPROF_BUFFERS,
		.domain_bytes = sizeof(struct memprof_domain),
		.domain_count = MEMPROF_DOMAINS,
		.buffers = (uintptr_t)memprof_buffers,
		.domains = (uintptr_t)memprof_domains,
	}};
extern __attribute__((visibility("default"))) struct memprof_agent_control memprof_agent_control
	__attribute__((alias("memprof_control_pages")));

uint64_t memprof_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static __thread uint32_t cached_tid;

uint32_t memprof_current_tid(void)
{
	if (cached_tid == 0)
		cached_tid = (uint32_t)syscall(SYS_gettid);
	return cached_tid;
}

/* The last index stands for domains beyond the arrays, which no runtime has today. */
uint32_t memprof_domain_index(void)
{
	uint32_t index;

	if (!caml_ml_domain_index)
		return 0;
	index = (uint32_t)LONG_VAL(caml_ml_domain_index(VAL_UNIT));
	return LIKELY(index < MEMPROF_DOMAINS) ? index : MEMPROF_DOMAINS - 1;
}

/* Held during a record or a probe hit; its holder waits for no other thread. */
static int shared_buffer_taken;

void memprof_lock_shared_buffer(void)
{
	while (__atomic_exchange_n(&shared_buffer_taken, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
}

void memprof_unlock_shared_buffer(void)
{
	__atomic_store_n(&shared_buffer_taken, 0, __ATOMIC_RELEASE);
}

uint64_t memprof_new_sample_id(uint32_t buffer)
{
	memprof_buffers[buffer].last_sample++;
	return memprof_last_sample_id(buffer);
}

uint64_t memprof_last_sample_id(uint32_t buffer)
{
	uint64_t n = memprof_buffers[buffer].last_sample;

	return caml_ml_domain_index ? n * MEMPROF_BUFFERS + buffer : n;
}

uint32_t memprof_sample_id_shift(void)
{
	return caml_ml_domain_index ? __builtin_ctz(MEMPROF_BUFFERS) : 0;
}

static int data_taken;

void memprof_lock_data(void)
{
	while (__atomic_exchange_n(&data_taken, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
}

void memprof_unlock_data(void) { __atomic_store_n(&data_taken, 0, __ATOMIC_RELEASE); }

/* Makes *used larger than index. */
static void use(uint32_t *counter, uint32_t index)
{
	uint32_t used = __atomic_load_n(counter, __ATOMIC_RELAXED);

	while (used <= index && !__atomic_compare_exchange_n(counter, &used, index + 1, 0,
							     __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
	}
}

struct memprof_domain *memprof_use_domain(uint32_t index)
{
	use(&memprof_agent_control.domains_used, index);
	return &memprof_domains[index];
}

void memprof_use_buffer(uint32_t index) { use(&memprof_agent_control.buffers_used, index); }

static enum memprof_batch_format running_format(void)
{
	return memprof_agent_control.running_capture == MEMPROF_CAPTURE_BY_KERNEL
		       ? MEMPROF_BATCH_PLAIN
		       : MEMPROF_BATCH_PACKED;
}

void memprof_begin_batch(struct memprof_batch_buffer *buffer, enum memprof_batch_format format)
{
	buffer->generation = memprof_agent_control.running_generation;
	buffer->format = format;
	buffer->words = 0;
}

enum memprof_batch_format memprof_batch_format(const struct memprof_batch_buffer *buffer)
{
	return buffer->count != 0 ? buffer->format : running_format();
}

static void hand_over(uint32_t index, uint32_t generation, uint32_t words)
{
	const struct memprof_batch_buffer *buffer = &memprof_buffers[index];
	const struct memprof_handed handed = {.tid = memprof_current_tid(),
					      .generation = generation,
					      .buffer = index,
					      .words = words,
					      .time_ns = memprof_now_ns(),
					      .first_seq = buffer->first_seq};

	memprof_share_hand_over(&handed, &buffer->packed);
}

static void probe(uint32_t index)
{
	struct memprof_batch_buffer *buffer = &memprof_buffers[index];
	const void *batch = buffer->records;
	uint32_t count = buffer->count;

	if (buffer->format == MEMPROF_BATCH_PACKED) {
		buffer->packed.head.records = count;
		if (memprof_share) {
			hand_over(index, buffer->generation, buffer->words);
			return;
		}
		batch = &buffer->packed;
		count = buffer->words;
	}
	memprof_probe_batch(batch, count, buffer->first_seq, buffer->generation, index,
			    buffer->format);
}

void memprof_flush(uint32_t index)
{
	struct memprof_batch_buffer *buffer = &memprof_buffers[index];
	uint32_t count = buffer->count;

	if (count == 0)
		return;
	if (memprof_activity.watchers != 0)
		probe(index);
	__atomic_store_n(&buffer->count, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&buffer->first_seq, buffer->first_seq + count, __ATOMIC_RELEASE);
}

void memprof_end_batch_of_before(uint32_t index)
{
	const struct memprof_batch_buffer *buffer = &memprof_buffers[index];

	if (UNLIKELY(buffer->count != 0 &&
		     buffer->generation != memprof_agent_control.running_generation))
		memprof_flush(index);
}

void memprof_flush_domain(uint32_t domain)
{
	uint32_t buffer = memprof_take_buffer(domain);

	memprof_flush(buffer);
	memprof_give_back_buffer(buffer);
}

/* Does not wait, because the thread that ends the program may be in the middle of a record. */
void memprof_flush_all(void)
{
	for (uint32_t i = 0; i < memprof_agent_control.buffers_used; i++) {
		if (i == MEMPROF_SHARED_BUFFER &&
		    __atomic_exchange_n(&shared_buffer_taken, 1, __ATOMIC_ACQUIRE) != 0)
			continue;
		memprof_flush(i);
		memprof_give_back_buffer(i);
	}
}

uint64_t memprof_records_of(uint32_t buffer)
{
	return memprof_buffers[buffer].first_seq + memprof_buffers[buffer].count;
}

void memprof_announce(uint32_t generation)
{
	uint32_t index = memprof_take_buffer(memprof_domain_index());
	const struct memprof_batch_buffer *buffer = &memprof_buffers[index];

	if (memprof_share)
		hand_over(index, generation, 0);
	else if (memprof_activity.watchers != 0)
		memprof_probe_batch(buffer->records, 0, buffer->first_seq, generation, index,
				    running_format());
	memprof_give_back_buffer(index);
}

void memprof_forget_buffers(void)
{
	cached_tid = 0;
	memprof_unlock_shared_buffer();
	for (uint32_t i = 0; i < memprof_agent_control.buffers_used; i++)
		memprof_buffers[i].count = 0;
}
