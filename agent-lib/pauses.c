/* SPDX-License-Identifier: Apache-2.0 */
#include "pauses.h"

#include "buffers.h"
#include "domains.h"
#include "tracked_entries.h"
#include "walk/late_stacks.h"
#include "runtime_abi.h"

typedef void (*hook)(void);

static hook next_minor_begin, next_slice_begin, next_slice_end;
static int chained;
/* Indexed by domain; 0: no collection is in progress that began while the hooks were set. */
static uint64_t minor_began_ns[MEMPROF_DOMAINS], slice_began_ns[MEMPROF_DOMAINS];

static void count_pause(enum memprof_gc_phase phase, uint64_t *began_ns, uint64_t now_ns)
{
	struct memprof_pauses *pauses = &memprof_agent_control.pauses[phase];
	uint64_t ns = now_ns - *began_ns;
	uint64_t units = ns >> 10;
	uint32_t bucket = units == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(units);

	if (*began_ns == 0)
		return;
	*began_ns = 0;
	if (bucket >= MEMPROF_PAUSE_BUCKETS)
		bucket = MEMPROF_PAUSE_BUCKETS - 1;
	__atomic_fetch_add(&pauses->count[bucket], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&pauses->sum_ns, ns, __ATOMIC_RELAXED);
}

static void on_minor_begin(void)
{
	if (next_minor_begin)
		next_minor_begin();
	memprof_late_stacks_pause();
	if (memprof_activity.sampling && memprof_has_domains())
		memprof_entries_begin_collection();
	if (memprof_activity.sampling)
		minor_began_ns[memprof_domain_index()] = memprof_now_ns();
}

static void on_slice_begin(void)
{
	if (next_slice_begin)
		next_slice_begin();
	if (memprof_activity.sampling)
		slice_began_ns[memprof_domain_index()] = memprof_now_ns();
}

static void on_slice_end(void)
{
	if (memprof_activity.sampling)
		count_pause(MEMPROF_GC_MAJOR_SLICE, &slice_began_ns[memprof_domain_index()],
			    memprof_now_ns());
	if (next_slice_end)
		next_slice_end();
}

void memprof_minor_pause_ended(uint64_t now_ns)
{
	count_pause(MEMPROF_GC_MINOR, &minor_began_ns[memprof_domain_index()], now_ns);
}

__attribute__((noinline)) void memprof_pauses_begin(void) /* tests check the order of its stores */
{
	/* An earlier session left them in the chain, because another hook was chained above them.
	 */
	if (chained || !&caml_minor_gc_begin_hook || !&caml_major_slice_begin_hook ||
	    !&caml_major_slice_end_hook)
		return;
	next_minor_begin = caml_minor_gc_begin_hook;
	next_slice_begin = caml_major_slice_begin_hook;
	next_slice_end = caml_major_slice_end_hook;
	memprof_set_hook(&caml_minor_gc_begin_hook, on_minor_begin);
	memprof_set_hook(&caml_major_slice_begin_hook, on_slice_begin);
	memprof_set_hook(&caml_major_slice_end_hook, on_slice_end);
	chained = 1;
}

void memprof_pauses_end(void)
{
	if (!chained || caml_minor_gc_begin_hook != on_minor_begin ||
	    caml_major_slice_begin_hook != on_slice_begin ||
	    caml_major_slice_end_hook != on_slice_end)
		return;
	caml_minor_gc_begin_hook = next_minor_begin;
	caml_major_slice_begin_hook = next_slice_begin;
	caml_major_slice_end_hook = next_slice_end;
	chained = 0;
}
