// SPDX-License-Identifier: Apache-2.0
/* Values that C code publishes; all are in the shared lane. */
#include "memprof_values.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "registry.h"

#define HEAD memprof_values_registry.head

static struct memprof_text text_of(const char *text)
{
	return (struct memprof_text){text ? text : "", text ? strlen(text) : 0};
}

static struct memprof_slot *slot_at(memprof_value value)
{
	return &memprof_values_registry.slots[value.slot % MEMPROF_VALUES_SLOTS];
}

memprof_point memprof_point_create(const char *name, const char *labels, const char *unit)
{
	memprof_values_lane(MEMPROF_VALUES_SHARED_LANE);
	return (memprof_point){memprof_values_slot(MEMPROF_SLOT_POINT, text_of(name),
						   text_of(labels), text_of(unit))};
}

void memprof_point_add(memprof_point point, int64_t hits)
{
	struct memprof_lane *lane = &memprof_values_registry.lanes[MEMPROF_VALUES_SHARED_LANE];

	__atomic_fetch_add(&lane->points[point.slot % MEMPROF_VALUES_SLOTS].hits,
			   2 * (uint64_t)hits, __ATOMIC_RELAXED);
}

void memprof_point_hit(memprof_point point) { memprof_point_add(point, 1); }

static memprof_timer make_timer(enum memprof_slot_kind kind, const char *name, const char *labels)
{
	uint32_t slot = memprof_values_slot(kind, text_of(name), text_of(labels), text_of(NULL));

	memprof_values_lane(MEMPROF_VALUES_SHARED_LANE);
	return (memprof_timer){slot, memprof_values_registry.slots[slot].cell};
}

memprof_timer memprof_timer_create(const char *name, const char *labels)
{
	return make_timer(MEMPROF_SLOT_TIMER, name, labels);
}

uint64_t memprof_timer_start(void) { return memprof_values_ticks(); }

void memprof_timer_stop(memprof_timer timer, uint64_t started)
{
	struct memprof_timer_cell *cell =
		memprof_values_timer(MEMPROF_VALUES_SHARED_LANE, timer.cell);
	uint64_t now = memprof_values_ticks();

	memprof_values_lock(&cell->seq);
	memprof_timer_count(MEMPROF_VALUES_SHARED_LANE, timer.cell, started, now);
	memprof_values_unlock(&cell->done, &cell->seq);
}

void memprof_timer_enter(memprof_timer timer)
{
	struct memprof_timer_cell *cell =
		memprof_values_timer(MEMPROF_VALUES_SHARED_LANE, timer.cell);

	memprof_values_lock(&cell->seq);
	cell->starts++;
	cell->sum_ticks -= memprof_values_ticks();
	memprof_values_unlock(&cell->done, &cell->seq);
}

void memprof_timer_leave(memprof_timer timer)
{
	struct memprof_timer_cell *cell =
		memprof_values_timer(MEMPROF_VALUES_SHARED_LANE, timer.cell);

	memprof_values_lock(&cell->seq);
	cell->stops++;
	cell->sum_ticks += memprof_values_ticks();
	memprof_values_unlock(&cell->done, &cell->seq);
}

memprof_timer memprof_phase_create(const char *name, const char *labels)
{
	return make_timer(MEMPROF_SLOT_PHASE, name, labels);
}

void memprof_phase_enter(memprof_timer phase)
{
	memprof_timer_enter(phase);
	memprof_values_add_line(MEMPROF_LOG_PHASE_ENTER, phase.slot, text_of(NULL));
}

void memprof_phase_leave(memprof_timer phase)
{
	memprof_timer_leave(phase);
	memprof_values_add_line(MEMPROF_LOG_PHASE_LEAVE, phase.slot, text_of(NULL));
}

static memprof_value watch(enum memprof_value_type type, const char *name, const char *labels,
			   const char *unit, const volatile void *where)
{
	memprof_value value = memprof_value_create(name, labels, unit);
	struct memprof_slot *slot = slot_at(value);

	memprof_values_lock(&slot->seq);
	/* The collector manages roots that OCaml code has registered. */
	if (slot->source != MEMPROF_VALUE_OCAML && slot->source != MEMPROF_VALUE_FUNCTION) {
		slot->type = type;
		slot->source = MEMPROF_VALUE_ADDRESS;
		slot->root = (uintptr_t)where;
	}
	memprof_values_unlock(&slot->done, &slot->seq);
	return value;
}

memprof_value memprof_value_watch_i64(const char *name, const char *labels, const char *unit,
				      const volatile int64_t *where)
{
	return watch(MEMPROF_VALUE_INT, name, labels, unit, where);
}

memprof_value memprof_value_watch_f64(const char *name, const char *labels, const char *unit,
				      const volatile double *where)
{
	return watch(MEMPROF_VALUE_FLOAT, name, labels, unit, where);
}

memprof_value memprof_value_create(const char *name, const char *labels, const char *unit)
{
	return (memprof_value){memprof_values_slot(MEMPROF_SLOT_VALUE, text_of(name),
						   text_of(labels), text_of(unit))};
}

void memprof_values_set(uint32_t index, enum memprof_value_type type, uint64_t number,
			struct memprof_text text)
{
	struct memprof_slot *slot = &memprof_values_registry.slots[index % MEMPROF_VALUES_SLOTS];

	memprof_values_lock(&slot->seq);
	slot->type = type;
	slot->state = MEMPROF_VALUE_THERE;
	slot->number = number;
	slot->changed_ns = memprof_values_ns(CLOCK_MONOTONIC_COARSE);
	slot->text_bytes = text.count < UINT32_MAX ? (uint32_t)text.count : UINT32_MAX;
	memcpy(slot->text, text.bytes,
	       text.count < sizeof slot->text ? text.count : sizeof slot->text);
	memprof_values_unlock(&slot->done, &slot->seq);
}

void memprof_value_set_i64(memprof_value value, int64_t number)
{
	memprof_values_set(value.slot, MEMPROF_VALUE_INT, (uint64_t)number, text_of(NULL));
}

void memprof_value_set_f64(memprof_value value, double number)
{
	uint64_t bits;

	memcpy(&bits, &number, sizeof bits);
	memprof_values_set(value.slot, MEMPROF_VALUE_FLOAT, bits, text_of(NULL));
}

void memprof_value_set_bool(memprof_value value, int is_true)
{
	memprof_values_set(value.slot, MEMPROF_VALUE_BOOL, is_true != 0, text_of(NULL));
}

void memprof_value_set_string(memprof_value value, const char *text)
{
	memprof_values_set(value.slot, MEMPROF_VALUE_STRING, 0, text_of(text));
}

int memprof_values_observed(void)
{
	uint64_t until = __atomic_load_n(&HEAD.observed_until_ns, __ATOMIC_RELAXED);

	if (until == 0)
		return 0;
	if (memprof_values_ns(CLOCK_MONOTONIC_COARSE) < until)
		return 1;
	/* Set to 0 so that the next call need not read the clock. */
	__atomic_compare_exchange_n(&HEAD.observed_until_ns, &until, 0, 0, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	return 0;
}

void memprof_log(const char *format, ...)
{
	char text[MEMPROF_LOG_TEXT];
	va_list arguments;
	int bytes;

	if (!memprof_values_observed())
		return;
	va_start(arguments, format);
	bytes = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (bytes >= 0)
		memprof_values_add_line(MEMPROF_LOG_LINE, 0,
					(struct memprof_text){text, (size_t)bytes < sizeof text
									    ? (size_t)bytes
									    : sizeof text - 1});
}

int memprof_pause(const char *name, unsigned int wait_ms)
{
	uint64_t until_ns = memprof_values_ns(CLOCK_MONOTONIC) + (uint64_t)wait_ms * 1000000u;
	uint64_t pause = memprof_values_begin_pause(text_of(name), wait_ms != 0);
	int is_over = 0;

	while (wait_ms != 0 && is_over == 0)
		is_over = memprof_values_wait(pause, until_ns);
	if (wait_ms != 0)
		memprof_values_end_wait();
	return is_over > 0;
}
