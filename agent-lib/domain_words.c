/* SPDX-License-Identifier: Apache-2.0 */
#include "domain_words.h"

#include "buffers.h"

/* Minor, promoted, major. */
static const uint64_t *words_of(domain_state *state)
{
	return (const uint64_t *)(state + memprof_agent_control.offsets.stat_words);
}

static struct memprof_domain *this_one(void) { return memprof_use_domain(memprof_domain_index()); }

/* Some versions go on counting where the last domain of that index ended. */
void memprof_domain_begins(void)
{
	struct memprof_domain *domain = this_one();

	for (int i = 0; i < 3; i++)
		domain->base_words[i] = words_of(caml_state)[i];
	domain->state = (uint64_t)caml_state;
}

void memprof_domain_joins(void) { this_one()->state = (uint64_t)caml_state; }

void memprof_domain_ends(void)
{
	struct memprof_domain *domain = this_one();

	if (domain->state == 0)
		return;
	domain->state = 0;
	domain->heap_bytes = 0; /* others adopt it */
	for (int i = 0; i < 3; i++)
		__atomic_fetch_add(&memprof_agent_control.ended_words[i],
				   words_of(caml_state)[i] - domain->base_words[i],
				   __ATOMIC_RELAXED);
}

void memprof_domain_collected(void)
{
	char *heap = *(char **)(caml_state + memprof_agent_control.offsets.shared_heap);

	if (caml_heap_size)
		this_one()->heap_bytes = caml_heap_size(heap);
}
