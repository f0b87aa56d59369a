/* SPDX-License-Identifier: Apache-2.0 */
#include "native_blocks.h"

#include "blocking.h"
#include "buffers.h"
#include "domains.h"
#include "sampled_blocks.h"
#include "sampler.h"

__attribute__((visibility("default"))) struct memprof_c_heap memprof_c_heap = {
	.magic = MEMPROF_NATIVE_HEAP_MAGIC,
	.abi_version = MEMPROF_NATIVE_HEAP_ABI,
	.bytes = sizeof(struct memprof_c_heap),
};

static uint64_t last_number;
/* Blocks of earlier sessions have smaller numbers. */
static uint64_t first_number;

void memprof_c_forget_blocks(void)
{
	memprof_sampled_clear();
	first_number = __atomic_load_n(&last_number, __ATOMIC_RELAXED) + 1;
}

/* True while blocks are followed; slots may still be set after that. */
static int still_wanted(void)
{
	if (memprof_activity.watchers != 0 && memprof_c_heap.requested_interval != 0)
		return 1;
	memprof_c_session = 0;
	return 0;
}

/* session: the session in which the block was sampled, or in which it ends. */
static void report_event(uint32_t session, uint64_t number, const void *block, uint64_t bytes,
			 uint32_t n_samples)
{
	struct memprof_c_event event = {
		.id = number,
		.bytes = bytes,
		.n_samples = n_samples,
		.generation = session,
		.thread_pointer = (uint64_t)__builtin_thread_pointer(),
		.domain_state = memprof_has_domains() ? (uint64_t)caml_state : 0,
	};

	if (n_samples == 0) {
		memprof_c_free_probe(block, 0, 0, &event);
		return;
	}
	memprof_blocking_note(session, &event);
	memprof_c_alloc_probe(block, bytes, memprof_c_weight(bytes, n_samples), &event);
}

void *memprof_c_allocated(void *block, uint64_t bytes)
{
	uint32_t n_samples, session;
	uint64_t number;

	if (!block)
		return block;
	n_samples = memprof_c_samples(bytes);
	session = memprof_c_thread.session;
	if (n_samples == 0 || !still_wanted())
		return block;
	/* The end of an earlier block at this address was not seen. */
	memprof_c_freed(block, memprof_sampled_take(block));
	number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
	if (!memprof_sampled_add(block, number)) {
		__atomic_add_fetch(&memprof_c_heap.not_followed, 1, __ATOMIC_RELAXED);
		return block;
	}
	__atomic_add_fetch(&memprof_c_heap.samples, 1, __ATOMIC_RELAXED);
	report_event(session, number, block, bytes, n_samples);
	return block;
}

void memprof_c_freed(const void *block, uint64_t number)
{
	uint32_t session = memprof_c_session;

	if (number < first_number || number == 0 || session == 0)
		return;
	__atomic_add_fetch(&memprof_c_heap.frees, 1, __ATOMIC_RELAXED);
	report_event(session, number, block, 0, 0);
}

void memprof_c_still_there(const void *block, uint64_t number)
{
	if (!memprof_sampled_add(block, number))
		memprof_c_freed(block, number);
}
