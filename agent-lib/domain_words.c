/* SPDX-License-Identifier: Apache-2.0 */
#include "domains.h"

#include "buffers.h"

/* Minor, promoted and major words. */
static const uint64_t *words_of(domain_state *state)
{
	return (const uint64_t *)(state + memprof_agent_control.offsets.stat_words);
}

/* Words in the minor heap that none of these counters contains yet. */
static uint64_t young_words(domain_state *state)
{
	uint64_t young_ptr = *(const uint64_t *)(state + MEMPROF_DOMAIN_YOUNG_PTR);
	uint64_t young_end = *(const uint64_t *)(state + MEMPROF_DOMAIN_YOUNG_END);

	return (young_end - young_ptr) / sizeof(value);
}

/* Words in the major heap since its last slice, promoted ones included, that none of these counters
 * contains yet. */
static uint64_t unsliced_words(domain_state *state)
{
	return *(const uint64_t *)(state + MEMPROF_DOMAIN_ALLOCATED_WORDS);
}

static struct memprof_domain *this_one(void) { return memprof_use_domain(memprof_domain_index()); }

/* Some versions continue from the counters of the last domain with this index. */
void memprof_domain_begins(void)
{
	struct memprof_domain *domain;

	memprof_lock_data();
	domain = this_one();
	for (int i = 0; i < 3; i++)
		domain->base_words[i] = words_of(caml_state)[i];
	domain->base_words[2] += unsliced_words(caml_state);
	domain->state = (uint64_t)caml_state;
	memprof_unlock_data();
}

void memprof_domain_joins(void)
{
	memprof_lock_data();
	this_one()->state = (uint64_t)caml_state;
	memprof_unlock_data();
}

/* The domain may never have joined a session. */
static void count_words_of_ended(struct memprof_domain *domain)
{
	domain->state = 0;
	domain->heap_bytes = 0; /* others adopt it */
	__atomic_fetch_add(&memprof_agent_control.ended_words[0], young_words(caml_state),
			   __ATOMIC_RELAXED);
	__atomic_fetch_add(&memprof_agent_control.ended_words[2], unsliced_words(caml_state),
			   __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		__atomic_fetch_add(&memprof_agent_control.ended_words[i],
				   words_of(caml_state)[i] - domain->base_words[i],
				   __ATOMIC_RELAXED);
}

void memprof_domain_ends(void)
{
	memprof_lock_data();
	count_words_of_ended(this_one());
	memprof_unlock_data();
}

uint64_t memprof_domain_allocated(domain_state *state)
{
	const uint64_t *words = words_of(state);

	return words[0] + young_words(state) + words[2] + unsliced_words(state) - words[1];
}

void memprof_domain_collected(void)
{
	char *heap = *(char **)(caml_state + memprof_agent_control.offsets.shared_heap);

	if (caml_heap_size)
		this_one()->heap_bytes = caml_heap_size(heap);
}
