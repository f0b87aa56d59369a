// SPDX-License-Identifier: Apache-2.0
/*
 * Module Memprof_check: the last run of a region, and points at which the program waits until
 * memprofctl check has verified its assertions. Marks are those of module Memprof_values.
 */
#define CAML_INTERNALS
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/signals.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ocaml_slots.h"
#include "registry.h"

#define HEAD memprof_values_registry.head

/* Time between two tests for an answer. A copy of the program is made while its thread sleeps,
 * which takes much less. */
#define NAP_NS 100000000
/* Time in which memprofctl must begin; while it works, the program waits until check_until_ns. */
#define PATIENCE_NS 10000000000u

/* Numbers that memprof_check.ml repeats. */
_Static_assert(MEMPROF_SLOT_UNREACHABLE == 7, "kind of marks of unreachable");
_Static_assert(MEMPROF_SLOT_DIES_BEFORE == 8, "kind of marks of dies_before");
_Static_assert(MEMPROF_VALUES_OWN_SLOTS == 509, "most_names");

value memprof_check_ml_region(value name, value max_bytes, value began_ns, value ended_ns)
{
	uint32_t index =
		memprof_values_slot(MEMPROF_SLOT_REGION, text_of(name),
				    (struct memprof_text){"", 0}, (struct memprof_text){"", 0});
	struct memprof_slot *slot = &memprof_values_registry.slots[index];

	if (index == MEMPROF_VALUES_OTHER_VALUES)
		return Val_unit;
	memprof_values_lock(&slot->seq);
	slot->number = (__u64)Long_val(max_bytes);
	slot->root = (__u64)Long_val(began_ns);
	slot->changed_ns = (__u64)Long_val(ended_ns);
	memprof_values_unlock(&slot->done, &slot->seq);
	return Val_unit;
}

/* True if memprofctl check has started this process: the agent reports that, because it has the
 * shared memory. */
value memprof_check_ml_is_checked(value unit)
{
	const char *pid = getenv(MEMPROF_CHECK_PID);

	(void)unit;
	return Val_bool(pid && strtol(pid, NULL, 10) == (long)getpid());
}

/* Returns the number of a new point; the first is 1. */
value memprof_check_ml_begin_point(value unit)
{
	static uint64_t last;
	uint64_t number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);

	(void)unit;
	__atomic_store_n(&HEAD.check_point, number, __ATOMIC_RELEASE);
	return Val_long(number);
}

static int is_over(uint64_t point, uint64_t began_ns)
{
	uint64_t now_ns = memprof_values_ns(CLOCK_MONOTONIC);

	return __atomic_load_n(&HEAD.check_answered, __ATOMIC_ACQUIRE) >= point ||
	       (now_ns - began_ns >= PATIENCE_NS &&
		now_ns >= __atomic_load_n(&HEAD.check_until_ns, __ATOMIC_RELAXED));
}

/* True if the point need not wait any more. Otherwise naps first and returns false, so that the
 * program handles its signals between calls. */
value memprof_check_ml_wait(value point, value began_ns)
{
	const struct timespec nap = {0, NAP_NS};
	int over = is_over((uint64_t)Long_val(point), (uint64_t)Long_val(began_ns));

	if (!over) {
		caml_enter_blocking_section();
		nanosleep(&nap, NULL);
		caml_leave_blocking_section();
	}
	return Val_bool(over);
}

/* Clears check_point, unless another thread has begun a point meanwhile. */
value memprof_check_ml_end_point(value point)
{
	uint64_t number = (uint64_t)Long_val(point);

	__atomic_compare_exchange_n(&HEAD.check_point, &number, 0, 0, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	return Val_unit;
}
