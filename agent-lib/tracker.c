/* SPDX-License-Identifier: Apache-2.0 */
#include "tracker.h"

#include "batch.h"
#include "callstacks.h"
#include "domains.h"
#include "session.h"
#include "snapshot.h"
#include "static_value.h"
#include "tracked_entries.h"

STATIC_CLOSURE(alloc_minor, memprof_stub_alloc_minor);
STATIC_CLOSURE(alloc_major, memprof_stub_alloc_major);
STATIC_CLOSURE(promote, memprof_stub_promote);
STATIC_CLOSURE(dealloc_minor, memprof_stub_dealloc_minor);
STATIC_CLOSURE(dealloc_major, memprof_stub_dealloc_major);

/* Entries from OCaml 5. */
extern value memprof_stub5_alloc_minor(void), memprof_stub5_alloc_major(void);
extern value memprof_stub5_promote(void);
extern value memprof_stub5_dealloc_minor(void), memprof_stub5_dealloc_major(void);

static struct {
	uint64_t header;
	value callbacks[5];
} tracker = {STATIC_HEADER(5, 0), {0}};

/* The runtime reads the field as soon as the callback returns, so one block serves all callbacks of
 * a domain. */
static struct some_id {
	uint64_t header;
	value id;
} some_ids[MEMPROF_DOMAINS];

/* The value by which the block is followed. */
static value follow(uint32_t domain, value id)
{
	struct some_id *some_id = &some_ids[domain];

	some_id->header = STATIC_HEADER(1, 0);
	some_id->id = id;
	return VALUE_OF(*some_id);
}

/* Called when a running session is over: returns true if it continues for this callback. In OCaml 5
 * the next session begins in the hook; if it began here, allocations until the hook would have no
 * samples. */
static int still_in_session(void)
{
	if (!memprof_has_domains() || !memprof_session_wanted())
		return memprof_session_change();
	memprof_domains_call_back();
	return 1;
}

/* True in a callback of the running session; false for one that has ended. */
static inline int in_session(void)
{
	if (LIKELY(memprof_activity.sampling && !memprof_session_over()))
		return 1;
	return memprof_activity.sampling && still_in_session();
}

/* Events of blocks that a session follows are also reported before it begins. */
static inline int is_reported(void) { return in_session() || memprof_session_follows(); }

/* OCaml 5: a sample of the previous session, whose callback was pending while the world was stopped
 * for the change. */
static inline int is_late(void) { return memprof_has_domains() && !memprof_domain_samples(); }

static uint32_t saturated(uint64_t n) { return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n; }

static value on_alloc(value info, enum memprof_record_kind kind)
{
	struct memprof_record record = {
		.size_words = (uint64_t)LONG_VAL(FIELD(info, 1)),
		.n_samples = saturated((uint64_t)LONG_VAL(FIELD(info, 0))),
		.origin = MEMPROF_ORIGIN(0, LONG_VAL(FIELD(info, 2)), kind),
	};
	uint32_t domain, buffer;
	value callstack;

	memprof_entries_mend();
	memprof_at_sample_point();
	if (UNLIKELY(!in_session() || is_late()))
		return VAL_UNIT;
	callstack = memprof_callstack_of(info);
	domain = memprof_domain_index();
	buffer = memprof_take_buffer(domain);
	record.sample_id = memprof_new_sample_id(buffer);
	memprof_append(buffer, &record, callstack);
	memprof_give_back_buffer(buffer);
#ifdef MEMPROF_ON_CALLSTACK
	MEMPROF_ON_CALLSTACK(&record, callstack);
#endif
	return follow(domain, VAL_LONG(record.sample_id));
}

value memprof_on_alloc_minor(value info) { return on_alloc(info, MEMPROF_ALLOC_MINOR); }

value memprof_on_alloc_major(value info) { return on_alloc(info, MEMPROF_ALLOC_MAJOR); }

value memprof_on_promote(value id)
{
	uint32_t domain;

	memprof_entries_mend();
	if (UNLIKELY(!is_reported()))
		return VAL_UNIT;
	domain = memprof_domain_index();
	memprof_append_follow(domain, id, MEMPROF_PROMOTE);
	return follow(domain, id);
}

static value on_dealloc(value id, enum memprof_record_kind kind)
{
	if (LIKELY(is_reported()))
		memprof_append_follow(memprof_domain_index(), id, kind);
	return VAL_UNIT;
}

value memprof_on_dealloc_minor(value id)
{
	if (UNLIKELY(memprof_entry_lives()))
		return follow(memprof_domain_index(), id);
	return on_dealloc(id, MEMPROF_DEALLOC_MINOR);
}

value memprof_on_dealloc_major(value id)
{
	memprof_entries_mend();
	return on_dealloc(id, MEMPROF_DEALLOC_MAJOR);
}

static void use_stubs_of_ocaml5(void)
{
	alloc_minor.code = memprof_stub5_alloc_minor;
	alloc_major.code = memprof_stub5_alloc_major;
	promote.code = memprof_stub5_promote;
	dealloc_minor.code = memprof_stub5_dealloc_minor;
	dealloc_major.code = memprof_stub5_dealloc_major;
}

value memprof_tracker_load(void)
{
	const struct static_closure *closures[5] = {&alloc_minor, &alloc_major, &promote,
						    &dealloc_minor, &dealloc_major};

	if (memprof_has_domains())
		use_stubs_of_ocaml5();
	for (int i = 0; i < 5; i++)
		tracker.callbacks[i] = VALUE_OF(*closures[i]);
	return VALUE_OF(tracker);
}

value memprof_tracker_alloc_minor(void) { return VALUE_OF(alloc_minor); }
