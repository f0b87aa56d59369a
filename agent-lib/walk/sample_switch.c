/* SPDX-License-Identifier: Apache-2.0 */
#include "sample_switch.h"

#include <stdatomic.h>

#include "../profiles.h"
#include "fiber_walk.h"

#define TRIGGER (memprof_agent_control.offsets.memprof + MEMPROF_DOMAIN_TRIGGER)

/* Maximum size of combined allocations; an allocation farther from a sample has none. */
#define MOST_ALLOCATED (8u * 1024u)
#define KNOWN_LENGTHS 256u
/* Number of samples between two checks of the depth of stacks. */
#define WINDOW 256u
/* Number of samples after a stack that was too deep during which no stack at least as deep is
 * walked. */
#define DEEP_PATIENCE 256u

/* Mean number of frames from which walking is worth it. Once on, it stays on from three quarters of
 * that. Tests write it. */
#ifndef MEMPROF_SWITCH_FRAMES
#define MEMPROF_SWITCH_FRAMES 20
#endif
static volatile uint32_t memprof_switch_frames = MEMPROF_SWITCH_FRAMES;

static struct sample_switch {
	int owns; /* this domain alone uses the profile */
	int on;	  /* requested_external_interrupt is set */
	int deep; /* stacks were deep at the last check */
	struct memprof_armed armed;
	uint32_t samples, frames; /* of the current window */
	uint32_t patience;
	uint64_t deep_fiber, deep_sp; /* stack that was too deep */
	struct {
		uint64_t pc;
		uint64_t words;
	} lengths[KNOWN_LENGTHS];
} __attribute__((aligned(64))) switches[MEMPROF_SWITCHES];

/* ------------------------------------------------------------------ the runtime */

/* caml_c_call begins with mov current_stack(%r14), %r10; mov %rsp, (%r10). Tests write it. */
static volatile uint8_t memprof_call_code[7] = {0x4d, 0x8b, 0x56, MEMPROF_DOMAIN_CURRENT_STACK,
						0x49, 0x89, 0x22};

static int keeps_stacks_as_expected(void)
{
	const uint8_t *code = (const uint8_t *)(uintptr_t)caml_c_call;

	for (uint32_t i = 0; i < sizeof memprof_call_code; i++) {
		if (code[i] != memprof_call_code[i])
			return 0;
	}
	return 1;
}

int memprof_switch_is_possible(void)
{
	return caml_c_call && caml_get_frame_descrs && caml_find_frame_descr &&
	       keeps_stacks_as_expected();
}

static uint64_t state_word(const domain_state *state, uint32_t offset)
{
	return *(const volatile uint64_t *)(state + offset);
}

static _Atomic(value) *frames_field(value profile)
{
	return (_Atomic(value) *)&FIELD(profile, PROFILE_STACK_FRAMES);
}

static int replace(value profile, value from, value to)
{
	return atomic_compare_exchange_strong(frames_field(profile), &from, to);
}

static value our_profile(domain_state *state)
{
	value profile = memprof_profile_of(state);

	return IS_BLOCK(profile) && memprof_is_ours(profile) ? profile : VAL_UNIT;
}

static void disarm(struct sample_switch *own, domain_state *state)
{
	value profile;

	own->armed.pc = 0;
	if (LIKELY(!own->armed.fresh))
		return;
	own->armed.fresh = 0;
	profile = our_profile(state);
	if (LIKELY(profile != VAL_UNIT))
		replace(profile, VAL_LONG(MEMPROF_WALKED_CALLSTACK_SIZE),
			VAL_LONG(MEMPROF_UNWALKED_CALLSTACK_SIZE));
}

static atomic_uintptr_t *interrupt_of(domain_state *state)
{
	return (atomic_uintptr_t *)(state + memprof_agent_control.offsets.external_interrupt);
}

/* ------------------------------------------------------------------ on and off */

static struct sample_switch *switch_of(uint32_t index)
{
	return index < MEMPROF_SWITCHES ? &switches[index] : NULL;
}

/* The hook of systhreads keeps it at 0 while it runs other threads. */
static void ask_again(const struct sample_switch *own, domain_state *state)
{
	uintptr_t none = 0;

	if (own->on && atomic_load(interrupt_of(state)) == 0)
		atomic_compare_exchange_strong(interrupt_of(state), &none, MEMPROF_SWITCH_ASKS);
}

static void turn_on(struct sample_switch *own, domain_state *state)
{
	own->on = 1;
	ask_again(own, state);
}

static void turn_off(struct sample_switch *own, domain_state *state)
{
	uintptr_t ours = MEMPROF_SWITCH_ASKS;

	disarm(own, state);
	own->on = 0;
	atomic_compare_exchange_strong(interrupt_of(state), &ours, 0);
}

void memprof_switch_begin(void)
{
	struct sample_switch *own = switch_of(memprof_domain_index());

	if (!own || memprof_agent_control.running_capture != MEMPROF_CAPTURE_BY_AGENT)
		return;
	own->owns = 1;
	own->armed.fresh = 0;
	own->armed.pc = 0;
	own->patience = 0;
	if (own->deep)
		turn_on(own, caml_state);
}

void memprof_switch_share(void)
{
	value profile = our_profile(caml_state);

	if (memprof_agent_control.running_capture == MEMPROF_CAPTURE_BY_AGENT &&
	    profile != VAL_UNIT)
		atomic_store(frames_field(profile), VAL_LONG(MEMPROF_UNWALKED_CALLSTACK_SIZE + 1));
}

void memprof_switch_end(domain_state *state)
{
	struct sample_switch *own = switch_of(memprof_domain_index());

	if (!own)
		return;
	turn_off(own, state);
	own->owns = 0;
}

uintptr_t memprof_switch_asks(void)
{
	const struct sample_switch *own = switch_of(memprof_domain_index());

	return own && own->on ? MEMPROF_SWITCH_ASKS : 0;
}

int memprof_switch_is_on(uint32_t index) { return index < MEMPROF_SWITCHES && switches[index].on; }

void memprof_switch_count(uint32_t index, uint32_t frames)
{
	struct sample_switch *own = switch_of(index);
	uint32_t mean, least;

	if (!own || !own->owns)
		return;
	own->frames += frames;
	if (LIKELY(++own->samples < WINDOW))
		return;
	mean = own->frames / own->samples;
	least = memprof_switch_frames;
	if (own->on)
		least -= least / 4;
	own->frames = own->samples = 0;
	own->deep = mean >= least;
	if (!own->deep || memprof_agent_control.walk_state != MEMPROF_WALK_OK)
		turn_off(own, caml_state);
	else
		turn_on(own, caml_state);
}

/* ------------------------------------------------------------------ arming */

/* Words that the OCaml code which called the runtime allocates there; 0: none. */
static uint64_t words_allocated_at(struct sample_switch *own, uint64_t pc)
{
	uint64_t at = (pc ^ pc >> 8) % KNOWN_LENGTHS;
	const struct memprof_descriptor *descriptor;

	if (LIKELY(own->lengths[at].pc == pc))
		return own->lengths[at].words;
	descriptor = caml_find_frame_descr(caml_get_frame_descrs(), pc);
	if (!descriptor)
		return 0;
	own->lengths[at].pc = pc;
	own->lengths[at].words = memprof_allocated_words(descriptor);
	return own->lengths[at].words;
}

/* True if the allocation for which the runtime was called has a sample and needs no collection
 * first; if it needs one, the hook is called again. */
static int is_sampled(struct sample_switch *own, const domain_state *state, uint64_t pc)
{
	uint64_t young = state_word(state, MEMPROF_DOMAIN_YOUNG_PTR),
		 trigger = state_word(state, TRIGGER);
	uint64_t words, after;

	if (young < trigger || young - trigger > MOST_ALLOCATED)
		return 0;
	words = words_allocated_at(own, pc);
	after = young - words * sizeof(value);
	return words != 0 && after >= state_word(state, MEMPROF_DOMAIN_YOUNG_START) &&
	       after < trigger;
}

/* True if the stack was too deep when it was at most as deep as now. */
static int is_too_deep(struct sample_switch *own, uint64_t fiber, uint64_t sp)
{
	if (LIKELY(own->patience == 0))
		return 0;
	own->patience--;
	if (fiber == own->deep_fiber && sp <= own->deep_sp)
		return 1;
	own->patience = 0;
	return 0;
}

static void arm(struct sample_switch *own, domain_state *state)
{
	uint64_t fiber = state_word(state, MEMPROF_DOMAIN_CURRENT_STACK);
	uint64_t sp = memprof_stack_word(fiber + MEMPROF_FIBER_SP);
	uint64_t end = memprof_stack_word(fiber + MEMPROF_FIBER_END);
	uint64_t pc = memprof_stack_word(sp);
	value profile;

	if (!is_sampled(own, state, pc) || is_too_deep(own, fiber, sp))
		return;
	profile = our_profile(state);
	if (profile == VAL_UNIT || !replace(profile, VAL_LONG(MEMPROF_UNWALKED_CALLSTACK_SIZE),
					    VAL_LONG(MEMPROF_WALKED_CALLSTACK_SIZE))) {
		turn_off(own, state); /* not ours, or another domain uses it too */
		own->owns = 0;
		return;
	}
	own->armed.pc = pc;
	own->armed.depth = end - sp;
	own->armed.parent = memprof_stack_word(end + MEMPROF_FIBER_PARENT);
	own->armed.fresh = 1;
}

void memprof_switch_look(void)
{
	struct sample_switch *own = switch_of(memprof_domain_index());

	if (!own || !own->on)
		return;
	disarm(own, caml_state);
	if (LIKELY(memprof_agent_control.walk_state == MEMPROF_WALK_OK))
		arm(own, caml_state);
	else
		turn_off(own, caml_state);
}

/* ------------------------------------------------------------------ in callbacks */

struct memprof_armed memprof_switch_take(uint32_t index)
{
	struct sample_switch *own = &switches[index];
	struct memprof_armed armed = own->armed;

	disarm(own, caml_state);
	own->armed = armed;
	own->armed.fresh = 0;
	return armed;
}

void memprof_switch_missed(uint32_t index) { ask_again(&switches[index], caml_state); }

void memprof_switch_too_deep(uint32_t index, uint64_t fiber, uint64_t sp)
{
	struct sample_switch *own = &switches[index];

	own->patience = DEEP_PATIENCE;
	own->deep_fiber = fiber;
	own->deep_sp = sp;
}
