/* SPDX-License-Identifier: Apache-2.0 */
#include "profiles.h"

#include <stdatomic.h>

#include "buffers.h"
#include "static_value.h"

/* A domain starts one profile per session, but many domains can come and go, and profiles of
 * earlier sessions are kept: at most half of these when another session begins. */
#define PROFILES (4 * MEMPROF_DOMAINS)
#define PROFILES_OF_BEFORE (PROFILES / 2)

extern value memprof_stub5_start(void);
STATIC_CLOSURE(start, memprof_stub_start);

static struct {
	uint64_t header;
	double rate;
} rate_block = {STATIC_HEADER(1, DOUBLE_TAG), 0};

static value our_tracker, our_callback;
static intptr_t size_of_callstacks;

/* Global roots once used. VAL_UNIT: free; 0: not used yet, or about to be. */
static value profiles[PROFILES];
static uint32_t generations[PROFILES]; /* generation of each profile's session */
static atomic_uint roots;	       /* registered profiles */
static atomic_uint kept_profiles;
static atomic_int following; /* some are stopped but not discarded */

void memprof_profiles_load(value tracker, value first_callback)
{
	our_tracker = tracker;
	our_callback = first_callback;
	if (caml_memprof_discard)
		start.code = memprof_stub5_start;
}

/* Runs inside caml_callback_exn, because starting a profile raises if another one runs. */
value memprof_start_body(value unit)
{
	(void)unit;
	return caml_memprof_start(VALUE_OF(rate_block), VAL_LONG(size_of_callstacks), our_tracker);
}

void memprof_set_profile(double rate, intptr_t callstack_size)
{
	rate_block.rate = rate;
	size_of_callstacks = callstack_size;
}

/* Some runtimes do not refuse a second profile but replace the first one. */
static int would_replace(void)
{
	return caml_memprof_is_sampling && caml_memprof_is_sampling(VAL_UNIT) == VAL_TRUE;
}

static __thread int starting;

int memprof_starts_profile(void) { return starting; }

value memprof_start_profile(void)
{
	value profile;

	if (would_replace())
		return EXCEPTION_RESULT;
	starting = 1;
	profile = caml_callback_exn(VALUE_OF(start), VAL_UNIT);
	starting = 0;
	return profile;
}

/* A profile without a rate uses no numbers of the generator. */
int memprof_make_generator(void)
{
	double rate = rate_block.rate;
	int is_made;

	rate_block.rate = 0;
	is_made = !IS_EXCEPTION_RESULT(memprof_start_profile());
	if (is_made)
		caml_memprof_stop(VAL_UNIT);
	rate_block.rate = rate;
	return is_made;
}

value memprof_profile_of(domain_state *state)
{
	const struct memprof_runtime_offsets *offsets = &memprof_agent_control.offsets;
	char *memprof = *(char **)(state + offsets->memprof);

	return *(value *)(memprof + offsets->memprof_config);
}

int memprof_is_sampling(value profile)
{
	return IS_BLOCK(profile) && FIELD(profile, PROFILE_STATUS) == PROFILE_SAMPLING;
}

int memprof_is_ours(value profile) { return FIELD(profile, PROFILE_ALLOC_MINOR) == our_callback; }

int memprof_profile_place_is_right(void)
{
	value profile;
	int right;

	memprof_set_profile(0, 0);
	profile = memprof_start_profile();
	if (IS_EXCEPTION_RESULT(profile))
		return -1;
	right = memprof_profile_of(caml_state) == profile && memprof_is_sampling(profile) &&
		memprof_is_ours(profile);
	caml_memprof_stop(VAL_UNIT);
	caml_memprof_discard(profile);
	return right;
}

/* ------------------------------------------------------------------ roots */

int memprof_profiles_have_room(void)
{
	return atomic_load(&kept_profiles) < PROFILES - MEMPROF_DOMAINS;
}

void memprof_keep_profile(value profile)
{
	unsigned n = atomic_load(&roots);

	atomic_fetch_add(&kept_profiles, 1);
	for (unsigned i = 0; i < n; i++) {
		if (__sync_bool_compare_and_swap(&profiles[i], VAL_UNIT, VAL_LONG(1))) {
			generations[i] = memprof_agent_control.running_generation;
			caml_modify_generational_global_root(&profiles[i], profile);
			return;
		}
	}
	n = atomic_fetch_add(&roots, 1);
	generations[n] = memprof_agent_control.running_generation;
	profiles[n] = profile;
	caml_register_generational_global_root(&profiles[n]);
}

static int is_profile(value slot) { return slot != 0 && IS_BLOCK(slot); }

/* Replacing an immediate value by another one needs no write barrier. */
void memprof_mark_profiles_stopped(void)
{
	unsigned n = atomic_load(&roots);

	for (unsigned i = 0; i < n; i++)
		if (is_profile(profiles[i]) && memprof_is_sampling(profiles[i])) {
			FIELD(profiles[i], PROFILE_STATUS) = PROFILE_STOPPED;
			FIELD(profiles[i], PROFILE_STACK_FRAMES) = VAL_LONG(size_of_callstacks);
		}
	atomic_store(&following, 1);
}

int memprof_profiles_follow(void) { return atomic_load(&following); }

/* All kept profiles are stopped. */
static void discard_before(uint64_t generation)
{
	unsigned n = atomic_load(&roots);

	for (unsigned i = 0; i < n; i++) {
		if (!is_profile(profiles[i]) || memprof_is_sampling(profiles[i]) ||
		    generations[i] >= generation)
			continue;
		caml_memprof_discard(profiles[i]);
		caml_modify_generational_global_root(&profiles[i], VAL_UNIT);
		atomic_fetch_sub(&kept_profiles, 1);
	}
}

void memprof_discard_profiles(void)
{
	discard_before(UINT64_MAX);
	atomic_store(&following, 0);
}

uint32_t memprof_discard_old_profiles(uint32_t generation)
{
	static uint32_t since;

	if (!memprof_profiles_follow())
		since = generation;
	if (generation >= since + MEMPROF_FOLLOWED_SESSIONS)
		since = generation - MEMPROF_FOLLOWED_SESSIONS + 1;
	discard_before(since);
	while (atomic_load(&kept_profiles) > PROFILES_OF_BEFORE && since + 1 < generation)
		discard_before(++since);
	return since;
}

void memprof_end_profile(value profile)
{
	FIELD(profile, PROFILE_STATUS) = PROFILE_STOPPED;
	caml_memprof_set_trigger(caml_state);
	caml_reset_young_limit(caml_state);
	caml_memprof_discard(profile);
}
