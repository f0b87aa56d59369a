/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "batch.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_AGE_NS 10000000u

extern void memprof_probe_batch(const struct memprof_record *records, uint32_t count,
				uint64_t first_seq, uint32_t generation);

__attribute__((visibility("default"))) struct memprof_agent_control memprof_agent_control = {
	.magic = MEMPROF_AGENT_MAGIC,
	.abi_version = MEMPROF_AGENT_ABI,
	.control_bytes = sizeof(struct memprof_agent_control),
};

static __thread uint32_t cached_tid;

uint64_t memprof_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t current_tid(void)
{
	if (cached_tid == 0)
		cached_tid = (uint32_t)syscall(SYS_gettid);
	return cached_tid;
}

void memprof_append(uint32_t kind, uint32_t source, uint64_t sample_id, uint64_t size_words,
		    uint64_t n_samples)
{
	struct memprof_agent_control *control = &memprof_agent_control;
	struct memprof_record *record = &control->records[control->count];

	record->time_ns = memprof_now_ns();
	record->sample_id = sample_id;
	record->size_words = size_words;
	record->n_samples = n_samples > UINT32_MAX ? UINT32_MAX : (uint32_t)n_samples;
	record->origin = MEMPROF_ORIGIN(current_tid(), source, kind);
	__atomic_store_n(&control->count, control->count + 1, __ATOMIC_RELEASE);
	if (control->count == MEMPROF_BATCH_RECORDS)
		memprof_flush();
}

void memprof_flush(void)
{
	struct memprof_agent_control *control = &memprof_agent_control;
	uint32_t count = control->count;

	if (count == 0)
		return;
	if (memprof_activity.watchers != 0)
		memprof_probe_batch(control->records, count, control->first_seq,
				    control->batch_generation);
	__atomic_store_n(&control->count, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&control->first_seq, control->first_seq + count, __ATOMIC_RELEASE);
}

void memprof_flush_old(uint64_t now_ns)
{
	if (memprof_agent_control.count != 0 &&
	    now_ns - memprof_agent_control.records[0].time_ns >= FLUSH_AGE_NS)
		memprof_flush();
}

void memprof_announce(void)
{
	if (memprof_activity.watchers != 0)
		memprof_probe_batch(memprof_agent_control.records, 0,
				    memprof_agent_control.first_seq,
				    memprof_agent_control.batch_generation);
}

void memprof_batch_forget(void)
{
	cached_tid = 0;
	memprof_agent_control.count = 0;
}
