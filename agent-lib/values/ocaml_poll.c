// SPDX-License-Identifier: Apache-2.0
/*
 * The work of a poll, after a minor collection or where the program polls explicitly: evaluates
 * functions whose values are published, and answers requests.
 */
#define CAML_INTERNALS
#include <caml/alloc.h>
#include <caml/callback.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/printexc.h>
#include <string.h>

#include "ocaml_slots.h"
#include "registry.h"

#define HEAD memprof_values_registry.head

static void set(uint32_t index, value result)
{
	struct memprof_slot *slot = &memprof_values_registry.slots[index];
	struct memprof_text text = {"", 0};
	double number = 0;
	uint64_t bits = 0;

	if (Is_exception_result(result)) {
		memprof_values_lock(&slot->seq);
		slot->state = MEMPROF_VALUE_RAISED;
		slot->changed_ns = memprof_values_ns(CLOCK_MONOTONIC_COARSE);
		memprof_values_unlock(&slot->done, &slot->seq);
		return;
	}
	if (slot->type == MEMPROF_VALUE_FLOAT) {
		number = Double_val(result);
		memcpy(&bits, &number, sizeof bits);
	} else if (slot->type == MEMPROF_VALUE_STRING) {
		text = text_of(result);
	} else {
		bits = (uint64_t)Long_val(result);
	}
	memprof_values_set(index, (enum memprof_value_type)slot->type, bits, text);
}

static int is_due(uint32_t index, uint64_t since_ns)
{
	const struct memprof_slot *slot = &memprof_values_registry.slots[index];
	__u32 control = memprof_values_control(index),
	      asked_ms = control & MEMPROF_CONTROL_PERIOD_MS;

	return slot->kind == MEMPROF_SLOT_VALUE && slot->source == MEMPROF_VALUE_FUNCTION &&
	       !(control & MEMPROF_CONTROL_OFF) &&
	       since_ns >= (uint64_t)(asked_ms ? asked_ms : slot->period_ms) * 1000000u;
}

/* Evaluates the functions that are due. They may allocate, raise, or let other threads run. */
static void evaluate(uint64_t *last_ns)
{
	for (uint32_t i = 0; i < HEAD.slots_used; i++) {
		struct memprof_slot *slot = &memprof_values_registry.slots[i];
		uint64_t now_ns = memprof_values_ns(CLOCK_MONOTONIC_COARSE);

		if (!is_due(i, last_ns[i] ? now_ns - last_ns[i] : UINT64_MAX))
			continue;
		last_ns[i] = now_ns;
		set(i, caml_callback_exn((value)slot->root, Val_unit));
	}
}

/* Registers the function that answers requests of that name from now on. */
value memprof_values_ml_on_request(value name, value place, value f)
{
	uint32_t index =
		memprof_values_slot(MEMPROF_SLOT_REQUEST, text_of(name),
				    (struct memprof_text){"", 0}, (struct memprof_text){"", 0});
	struct memprof_slot *slot = &memprof_values_registry.slots[index];

	if (index == MEMPROF_VALUES_OTHER_VALUES)
		return Val_unit;
	memprof_values_lock(&slot->seq);
	slot->type = (uint32_t)Long_val(place);
	keep_root(slot, slot->root != 0, f);
	memprof_values_unlock(&slot->done, &slot->seq);
	return Val_unit;
}

static void answer(struct memprof_request *request, uint64_t number, value result)
{
	int has_raised = Is_exception_result(result);
	char *why = has_raised ? caml_format_exception(Extract_exception(result)) : NULL;
	struct memprof_text text =
		has_raised ? (struct memprof_text){why ? why : "", why ? strlen(why) : 0}
			   : text_of(result);

	memprof_values_lock(&request->seq);
	request->state = has_raised ? MEMPROF_REQUEST_RAISED : MEMPROF_REQUEST_ANSWERED;
	request->text_bytes = (uint32_t)text.count;
	memcpy(request->text, text.bytes,
	       text.count < sizeof request->text ? text.count : sizeof request->text);
	request->answered = number;
	memprof_values_unlock(&request->done, &request->seq);
	caml_stat_free(why);
}

/* True if there is a request for which a client still waits. */
static int begin(struct memprof_request *request, uint64_t number)
{
	if (number == 0 || number == request->answered)
		return 0;
	__atomic_store_n(&request->running, number, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&request->asked, __ATOMIC_SEQ_CST) == number)
		return 1;
	__atomic_store_n(&request->running, 0, __ATOMIC_SEQ_CST);
	return 0;
}

/* Answers the requests that may be answered here. Like evaluated functions, the called ones may
 * allocate, raise, or let other threads run. */
static void serve(int at_poll)
{
	for (uint32_t i = 0; i < HEAD.slots_used; i++) {
		struct memprof_slot *slot = &memprof_values_registry.slots[i];
		struct memprof_request *request;
		uint64_t number;
		value argument;
		__u32 count;

		if (slot->kind != MEMPROF_SLOT_REQUEST || slot->root == 0 ||
		    (slot->type == MEMPROF_REQUEST_AT_POLL && !at_poll))
			continue;
		request = &memprof_values_registry.requests[slot->cell % MEMPROF_VALUES_REQUESTS];
		number = __atomic_load_n(&request->asked, __ATOMIC_SEQ_CST);
		if (!begin(request, number))
			continue;
		count = __atomic_load_n(&request->argument_bytes, __ATOMIC_RELAXED);
		argument = caml_alloc_initialized_string(
			count < sizeof request->argument ? count : sizeof request->argument,
			request->argument);
		answer(request, number, caml_callback_exn((value)slot->root, argument));
		__atomic_store_n(&request->running, 0, __ATOMIC_SEQ_CST);
	}
}

/* at_poll: true where the program polls explicitly, false after a minor collection. */
value memprof_values_ml_poll(value at_poll)
{
	static uint64_t last_ns[MEMPROF_VALUES_SLOTS]; /* 0: not yet */
	static uint64_t served[2];		       /* last request, by place */
	static char is_busy;
	int place = Bool_val(at_poll);
	uint64_t asked = __atomic_load_n(&HEAD.asked_last, __ATOMIC_ACQUIRE);
	int is_observed = memprof_values_observed();

	if ((is_observed || asked != served[place]) &&
	    !__atomic_test_and_set(&is_busy, __ATOMIC_ACQUIRE)) {
		if (is_observed)
			evaluate(last_ns);
		if (asked != served[place])
			serve(place);
		served[place] = asked;
		__atomic_clear(&is_busy, __ATOMIC_RELEASE);
	}
	return Val_unit;
}
