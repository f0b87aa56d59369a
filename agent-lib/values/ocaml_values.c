// SPDX-License-Identifier: Apache-2.0
/*
 * Stubs of module Memprof_values, compiled with the headers of the target OCaml version.
 *
 * OCaml 4 has one lane, which only the holder of the runtime lock writes; a point is an OCaml
 * record in it, which OCaml code increments itself. OCaml 5 has a lane for each domain, whose state
 * is in r14 when OCaml code calls C code that does not allocate.
 */
#define CAML_INTERNALS
#include <caml/alloc.h>
#include <caml/bigarray.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/signals.h>
#include <caml/version.h>
#include <caml/weak.h>
#include <stdlib.h>
#include <string.h>

#include "memprof_values.h"
#include "ocaml_slots.h"
#include "registry.h"

#define HEAD memprof_values_registry.head
#define DEFAULT_PERIOD_MS 1000

#if OCAML_VERSION >= 50000
#include <caml/domain_state.h>
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
register caml_domain_state *domain __asm__("r14");
#else
#define domain Caml_state
#endif
static inline uint32_t lane_here(void)
{
	uint32_t lane = (uint32_t)domain->id;

	return __builtin_expect(lane < HEAD.lanes_used, 1) ? lane : memprof_values_lane(lane);
}
/* Index of the calling domain. */
intnat memprof_values_ml_domain(value unit)
{
	(void)unit;
	return domain->id;
}
#else
static inline uint32_t lane_here(void) { return 0; }
#endif

value memprof_values_ml_point(value name, value labels, value unit)
{
	uint32_t slot = memprof_values_slot(MEMPROF_SLOT_POINT, text_of(name), text_of(labels),
					    text_of(unit));
#if OCAML_VERSION >= 50000
	return Val_long(slot);
#else
	struct memprof_point_cell *cell =
		&memprof_values_registry.lanes[memprof_values_lane(0)].points[slot];

	if (cell->header == 0) {
		/* Black, as OCaml 4 requires if its collector has no page table to look up a block
		 * (--disable-naked-pointers; checked by --enable-naked-pointers-checker). */
		cell->header = (uint64_t)1 << 10 | 0x300;
		cell->hits = Val_long(0);
	}
	return (value)&cell->hits;
#endif
}

#if OCAML_VERSION >= 50000
static inline __u64 *hits_of(uint32_t lane, intnat point)
{
	return &memprof_values_registry.lanes[lane].points[point & (MEMPROF_VALUES_SLOTS - 1)].hits;
}

/* Adds for a domain that has no lane yet, or shares one. */
static __attribute__((noinline)) value add_elsewhere(intnat point, uint64_t words)
{
	uint32_t lane = memprof_values_lane((uint32_t)domain->id);

	if (lane == MEMPROF_VALUES_SHARED_LANE)
		__atomic_fetch_add(hits_of(lane, point), words, __ATOMIC_RELAXED);
	else
		*hits_of(lane, point) += words;
	return Val_unit;
}

static inline value add(intnat point, uint64_t words)
{
	uint32_t lane = (uint32_t)domain->id;

	if (__builtin_expect(lane >= HEAD.lanes_used, 0))
		return add_elsewhere(point, words);
	*hits_of(lane, point) += words;
	return Val_unit;
}

value memprof_values_ml_hit(intnat point) { return add(point, 2); }
value memprof_values_ml_add(intnat point, intnat hits) { return add(point, 2 * (uint64_t)hits); }
#endif

value memprof_values_ml_timer(value kind, value name, value labels)
{
	uint32_t slot = memprof_values_slot((enum memprof_slot_kind)Long_val(kind), text_of(name),
					    text_of(labels), (struct memprof_text){"", 0});

	memprof_values_lane(0);
	return Val_long(memprof_values_registry.slots[slot].cell | slot << 16);
}

intnat memprof_values_ml_start(value unit)
{
	(void)unit;
	return (intnat)memprof_values_ticks();
}

/* The only writer of a lane need not wait for others, but marks the cell for readers. */
static inline struct memprof_timer_cell *open_cell(intnat timer, uint32_t lane)
{
	struct memprof_timer_cell *cell = memprof_values_timer(lane, (uint32_t)timer & 0xffff);

	if (__builtin_expect(lane == MEMPROF_VALUES_SHARED_LANE, 0)) {
		memprof_values_lock(&cell->seq);
	} else {
		__atomic_store_n(&cell->seq, cell->seq + 1, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_RELEASE);
	}
	return cell;
}

value memprof_values_ml_stop(intnat timer, intnat started)
{
	uint64_t now = memprof_values_ticks();
	uint32_t lane = lane_here();
	struct memprof_timer_cell *cell = open_cell(timer, lane);

	memprof_timer_count(lane, (uint32_t)timer & 0xffff, (uint64_t)started, now);
	memprof_values_unlock(&cell->done, &cell->seq);
	return Val_unit;
}

value memprof_values_ml_enter(intnat timer)
{
	struct memprof_timer_cell *cell = open_cell(timer, lane_here());

	cell->starts++;
	cell->sum_ticks -= memprof_values_ticks();
	memprof_values_unlock(&cell->done, &cell->seq);
	return Val_unit;
}

value memprof_values_ml_leave(intnat timer)
{
	struct memprof_timer_cell *cell = open_cell(timer, lane_here());

	cell->stops++;
	cell->sum_ticks += memprof_values_ticks();
	memprof_values_unlock(&cell->done, &cell->seq);
	return Val_unit;
}

value memprof_values_ml_phase(intnat timer, value is_begin)
{
	memprof_values_add_line(is_begin == Val_true ? MEMPROF_LOG_PHASE_ENTER
						     : MEMPROF_LOG_PHASE_LEAVE,
				(uint32_t)timer >> 16, (struct memprof_text){"", 0});
	return Val_unit;
}

static uint32_t usual_period_ms(void)
{
	const char *text = getenv("MEMPROFD_PERIOD");
	long ms = text ? strtol(text, NULL, 10) : 0;

	return ms > 0 && ms <= 86400000 ? (uint32_t)ms : DEFAULT_PERIOD_MS;
}

/* root: the value itself, or the function that returns it. The registry keeps it alive. */
value memprof_values_ml_watch(value name, value labels, value unit, value type, value source,
			      value period_ms, value root)
{
	uint32_t index = memprof_values_slot(MEMPROF_SLOT_VALUE, text_of(name), text_of(labels),
					     text_of(unit));
	struct memprof_slot *slot = &memprof_values_registry.slots[index];
	uint32_t was = slot->source;

	if (index == MEMPROF_VALUES_OTHER_VALUES)
		return Val_unit;
	memprof_values_lock(&slot->seq);
	slot->type = (uint32_t)Long_val(type);
	slot->source = (uint32_t)Long_val(source);
	slot->period_ms =
		Long_val(period_ms) > 0 ? (uint32_t)Long_val(period_ms) : usual_period_ms();
	keep_root(slot, was == MEMPROF_VALUE_OCAML || was == MEMPROF_VALUE_FUNCTION, root);
	memprof_values_unlock(&slot->done, &slot->seq);
	return Val_unit;
}

value memprof_values_ml_watch_bytes(value *arguments, int count)
{
	(void)count;
	return memprof_values_ml_watch(arguments[0], arguments[1], arguments[2], arguments[3],
				       arguments[4], arguments[5], arguments[6]);
}

/* Returns the tag or assertion of that name, and creates it if necessary; the registry then keeps
 * it alive. If the registry is full, the result has no effect. */
value memprof_values_ml_marks(value kind, value name, value labels, value made)
{
	uint32_t index = memprof_values_slot((enum memprof_slot_kind)Long_val(kind), text_of(name),
					     text_of(labels), (struct memprof_text){"", 0});
	struct memprof_slot *slot = &memprof_values_registry.slots[index];

	if (index == MEMPROF_VALUES_OTHER_VALUES)
		return made;
	memprof_values_lock(&slot->seq);
	if (slot->root == 0) {
		slot->number = (__u64)caml_ephe_none;
		slot->source = MEMPROF_VALUE_OCAML;
		keep_root(slot, 0, made);
	}
	memprof_values_unlock(&slot->done, &slot->seq);
	return (value)slot->root;
}

/* True on the first call. */
value memprof_values_ml_first(value unit)
{
	static char is_armed;

	(void)unit;
	return Val_bool(!__atomic_test_and_set(&is_armed, __ATOMIC_RELAXED));
}

#define PLACES(array) ((intnat)Wosize_val(array) - CAML_EPHE_FIRST_KEY)

static inline int is_free(value array, intnat place)
{
	return Field(array, CAML_EPHE_FIRST_KEY + place) == caml_ephe_none;
}

/* Returns the first free place of a weak array from this one on, in steps, or the array's size. A
 * dead value's place counts as taken until the collector has cleared it. */
intnat memprof_values_ml_next_free(value array, intnat place, intnat step)
{
	while (place < PLACES(array) && !is_free(array, place))
		place += step;
	return place;
}

/* Number of places that marks occupy, `step` for each mark. */
intnat memprof_values_ml_taken(value array, intnat step)
{
	intnat taken = 0;

	for (intnat place = 0; place < PLACES(array); place += step)
		taken += is_free(array, place) ? 0 : step;
	return taken;
}

value memprof_values_ml_observed(value unit)
{
	(void)unit;
	return Val_bool(memprof_values_observed());
}

value memprof_values_ml_observed_until(value unit)
{
	intnat one = 1;

	(void)unit;
	return caml_ba_alloc(CAML_BA_CAML_INT | CAML_BA_C_LAYOUT | CAML_BA_EXTERNAL, 1,
			     &HEAD.observed_until_ns, &one);
}

value memprof_values_ml_line(value line)
{
	memprof_values_add_line(MEMPROF_LOG_LINE, 0, text_of(line));
	return Val_unit;
}

value memprof_values_ml_begin_pause(value name, value is_waiting)
{
	return Val_long(memprof_values_begin_pause(text_of(name), Bool_val(is_waiting)));
}

/* Checks once and then sleeps briefly, so that the program handles its signals. */
value memprof_values_ml_wait(value pause, value until_ns)
{
	uint64_t number = (uint64_t)Long_val(pause), until = (uint64_t)Long_val(until_ns);
	int is_over;

	caml_enter_blocking_section();
	is_over = memprof_values_wait(number, until);
	caml_leave_blocking_section();
	return Val_long(is_over);
}

value memprof_values_ml_end_wait(value unit)
{
	memprof_values_end_wait();
	return unit;
}

value memprof_values_ml_now(value unit)
{
	(void)unit;
	return Val_long(memprof_values_ns(CLOCK_MONOTONIC));
}

/* Called from bytecode, which the package does not support. */
value memprof_values_no_bytecode(value unit) { return unit; }
