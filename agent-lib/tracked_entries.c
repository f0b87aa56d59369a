/* SPDX-License-Identifier: Apache-2.0 */
#include "tracked_entries.h"

#include <stddef.h>

#include "batch.h"
#include "profiles.h"

/* ------------------------------------------------------------------ the runtime's, 5.3 and 5.4 */

struct entry {
	value block;
	value user_data;
	uint64_t samples, words;
	const void *runner; /* the thread that runs a callback for this entry */
	uint32_t flags;
};
#define ALLOCATED_YOUNG (1u << 3)
#define PROMOTED (1u << 4)
#define DEALLOCATED (1u << 5)
#define DELETED (1u << 6)
#define CALLED_BACK_ALLOC (1u << 9)
#define CALLED_BACK_PROMOTE (1u << 10)
#define CALLED_BACK_DEALLOC (1u << 11)

struct table {
	struct entry *entries;
	uint64_t least_capacity, capacity, size;
	uint64_t young, evict, active; /* entries before these are old, kept, reported */
	value profile;
};

struct orphans {
	struct table table;
	struct orphans *next;
};

struct tracker_domain;
struct thread {
	uint64_t suspended;
	uint64_t running_index;
	struct table *running_table; /* null: it runs no callback */
	struct table table;
	struct tracker_domain *domain;
	struct thread *next;
};

struct tracker_domain {
	domain_state *state;
	struct table table;
	struct orphans *orphans;
	uint64_t pending;
	struct thread *threads, *current;
	void *callstack_buffer;
};

_Static_assert(sizeof(struct entry) == 48, "as in the runtime");
_Static_assert(offsetof(struct tracker_domain, table.profile) == 64, "as in the runtime");
_Static_assert(offsetof(struct tracker_domain, callstack_buffer) == 104, "as in the runtime");

/* Bounds the length of lists. */
#define MOST_TABLES 4096u

static int is_sane(const struct table *table)
{
	return table->young <= table->size && table->active <= table->size &&
	       table->evict <= table->size && table->size <= table->capacity &&
	       (table->size == 0 || table->entries);
}

/* Null if the layout is different. */
static struct tracker_domain *tracker_of(domain_state *state)
{
	const struct memprof_runtime_offsets *offsets = &memprof_agent_control.offsets;
	struct tracker_domain *domain;

	if (offsets->memprof == 0 ||
	    offsets->memprof_config != offsetof(struct tracker_domain, table.profile))
		return 0;
	domain = *(struct tracker_domain **)(state + offsets->memprof);
	if (!domain || domain->state != state || !domain->current ||
	    domain->current->domain != domain || !is_sane(&domain->table))
		return 0;
	return domain;
}

/* True for tables of our profiles that have not been discarded. */
static int is_our_table(const struct table *table)
{
	return is_sane(table) && IS_BLOCK(table->profile) && memprof_is_ours(table->profile) &&
	       (FIELD(table->profile, PROFILE_STATUS) == PROFILE_SAMPLING ||
		FIELD(table->profile, PROFILE_STATUS) == PROFILE_STOPPED);
}

typedef void (*use_table)(struct table *, uint32_t domain);

static void for_each_table(struct tracker_domain *tracker, uint32_t domain, use_table use)
{
	uint32_t left = MOST_TABLES;

	if (is_our_table(&tracker->table))
		use(&tracker->table, domain);
	for (struct thread *thread = tracker->threads; thread && left-- > 0; thread = thread->next)
		if (is_our_table(&thread->table))
			use(&thread->table, domain);
	for (struct orphans *orphans = tracker->orphans; orphans && left-- > 0;
	     orphans = orphans->next)
		if (is_our_table(&orphans->table))
			use(&orphans->table, domain);
}

/* ------------------------------------------------------------------ blocks of a minor heap */

/* The block of an entry at the beginning of the last minor collection. */
struct young {
	const struct table *table; /* null: not followed, because the table may be gone */
	uint64_t index;
	value user_data;
	value block;
};
#define MOST_YOUNG 1024u

static struct noted {
	uint32_t count;
	uint32_t uncertain;  /* further blocks for which there was no room */
	uint64_t collection; /* caml_minor_collections_count at that collection */
	struct young young[MOST_YOUNG];
} noted[MEMPROF_BUFFERS];

/* Domains of the highest indexes share a buffer; for them this returns null. */
static struct noted *noted_of(uint32_t domain)
{
	return domain < MEMPROF_SHARED_BUFFER ? &noted[domain] : 0;
}

static void note_young(struct table *table, uint32_t domain)
{
	struct noted *of = noted_of(domain);

	for (uint64_t i = table->young; i < table->size; i++) {
		const struct entry *entry = &table->entries[i];

		if ((entry->flags & (DEALLOCATED | DELETED | PROMOTED)) ||
		    !(entry->flags & ALLOCATED_YOUNG) || !IS_BLOCK(entry->block))
			continue;
		if (of->count == MOST_YOUNG) {
			of->uncertain++;
			continue;
		}
		of->young[of->count++] = (struct young){table, i, entry->user_data, entry->block};
	}
}

/* New address of a promoted block of the minor heap; 0: it was not promoted, or that is unknown
 * because the domain has allocated over it. */
static value promoted_to(value block, domain_state *state)
{
	uint64_t begin = *(uint64_t *)(state + MEMPROF_DOMAIN_YOUNG_START);
	uint64_t unused_end = *(uint64_t *)(state + MEMPROF_DOMAIN_YOUNG_PTR);
	uint64_t end = *(uint64_t *)(state + MEMPROF_DOMAIN_YOUNG_END);
	uint64_t header = (uint64_t)block - 8;
	uint64_t to;

	if (block % 8 != 0 || header < begin || header >= end)
		return 0;
	if (header + 16 > unused_end) {
		__atomic_fetch_add(&memprof_agent_control.uncertain_deaths, 1, __ATOMIC_RELAXED);
		return 0;
	}
	if (*(uint64_t *)header != 0)
		return 0;
	to = (uint64_t)FIELD(block, 0);
	return to == 0 || to % 8 != 0 || (to >= begin && to < end) ? 0 : (value)to;
}

/* The runtime has counted the block as dead, but not reported it. */
static int is_taken_for_dead(const struct entry *entry)
{
	return (entry->flags & (DEALLOCATED | DELETED | PROMOTED)) == DEALLOCATED &&
	       entry->block == VAL_UNIT;
}

static void mend(struct entry *entry, value block)
{
	entry->block = block;
	entry->flags &= ~(DEALLOCATED | CALLED_BACK_DEALLOC);
	entry->flags |= PROMOTED;
}

static void mend_table(struct table *table, uint32_t domain)
{
	const struct noted *of = noted_of(domain);

	for (uint32_t i = 0; i < of->count; i++) {
		const struct young *young = &of->young[i];
		struct entry *entry;
		value block;

		if (young->table != table || young->index >= table->size)
			continue;
		entry = &table->entries[young->index];
		if (entry->runner || entry->user_data != young->user_data ||
		    !is_taken_for_dead(entry) || (entry->flags & CALLED_BACK_DEALLOC))
			continue;
		block = promoted_to(young->block, caml_state);
		if (block)
			mend(entry, block);
	}
}

static void forget(struct noted *of)
{
	if (of->uncertain)
		__atomic_fetch_add(&memprof_agent_control.uncertain_deaths, of->uncertain,
				   __ATOMIC_RELAXED);
	of->uncertain = 0;
	of->count = 0;
}

/* True if the domain was noted this many collections ago. */
static int has_noted(uint32_t domain, uint64_t ago)
{
	const struct noted *of = noted_of(domain);

	return of && (of->count | of->uncertain) != 0 &&
	       of->collection + ago == caml_minor_collections_count;
}

static void mend_all(uint32_t domain)
{
	struct tracker_domain *tracker = tracker_of(caml_state);

	if (tracker)
		for_each_table(tracker, domain, mend_table);
	forget(noted_of(domain));
}

void memprof_entries_mend(void)
{
	uint32_t domain = memprof_domain_index();

	if (UNLIKELY(has_noted(domain, 0)))
		mend_all(domain);
}

/* Returns the entry whose callback this thread runs. */
static struct entry *running_entry(const struct tracker_domain *tracker, const struct table **table,
				   uint64_t *index)
{
	const struct thread *thread = tracker->current;
	struct entry *entry;

	*table = thread->running_table;
	*index = thread->running_index;
	if (!*table || !is_our_table(*table) || *index >= (*table)->size)
		return 0;
	entry = &(*table)->entries[*index];
	return entry->runner == thread ? entry : 0;
}

int memprof_entry_lives(void)
{
	uint32_t domain = memprof_domain_index();
	const struct tracker_domain *tracker;
	const struct table *table;
	struct entry *entry;
	uint64_t index;
	value block = 0;

	if (LIKELY(!has_noted(domain, 0)))
		return 0;
	tracker = tracker_of(caml_state);
	entry = tracker ? running_entry(tracker, &table, &index) : 0;
	if (entry && is_taken_for_dead(entry)) {
		const struct noted *of = noted_of(domain);

		for (uint32_t i = 0; i < of->count; i++)
			if (of->young[i].table == table && of->young[i].index == index)
				block = promoted_to(of->young[i].block, caml_state);
	}
	if (block)
		mend(entry, block);
	mend_all(domain);
	return block != 0;
}

/* ------------------------------------------------------------------ waiting domains */

/* Deletes the entry as the runtime does after the callback. */
static void delete_entry(struct table *table, uint64_t index)
{
	struct entry *entry = &table->entries[index];

	entry->flags |= DELETED;
	entry->user_data = VAL_UNIT;
	entry->block = VAL_UNIT;
	if (index < table->evict)
		table->evict = index;
}

static void report_deaths(struct table *table, uint32_t domain)
{
	for (uint64_t i = table->active; i < table->size; i++) {
		const struct entry *entry = &table->entries[i];
		uint32_t flags = entry->flags;

		if ((flags & (DEALLOCATED | DELETED)) != DEALLOCATED || entry->runner ||
		    !(flags & CALLED_BACK_ALLOC) || (flags & CALLED_BACK_DEALLOC) ||
		    IS_BLOCK(entry->user_data) || entry->user_data == VAL_UNIT)
			continue;
		if ((flags & PROMOTED) && !(flags & CALLED_BACK_PROMOTE))
			memprof_append_follow(domain, entry->user_data, MEMPROF_PROMOTE);
		memprof_append_follow(domain, entry->user_data,
				      (flags & PROMOTED) || !(flags & ALLOCATED_YOUNG)
					      ? MEMPROF_DEALLOC_MAJOR
					      : MEMPROF_DEALLOC_MINOR);
		delete_entry(table, i);
	}
}

void memprof_entries_begin_collection(void)
{
	uint32_t domain = memprof_domain_index();
	struct tracker_domain *tracker = tracker_of(caml_state);

	if (has_noted(domain, 1))
		mend_all(domain);
	if (!tracker)
		return;
	if (caml_bt_is_self())
		for_each_table(tracker, domain, report_deaths);
	if (noted_of(domain) && caml_num_domains_running > 1 && &caml_minor_collections_count) {
		forget(noted_of(domain));
		noted_of(domain)->collection = caml_minor_collections_count;
		for_each_table(tracker, domain, note_young);
	}
}
