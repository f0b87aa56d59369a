/* SPDX-License-Identifier: Apache-2.0 */
#include "random.h"

#include <stdatomic.h>

#include "buffers.h"
#include "include/memprof_ocaml4_abi.h"
#include "profiles.h"

#define STREAMS 64
#define WORDS (4 * STREAMS) /* their first words, second ones, third and fourth */
/* OCaml 5: where the runtime keeps the generator of a domain beside its profile. */
#define PROFILE_AT 64
#define GENERATOR_AT 120
#define ALIGNMENT ((uintptr_t)16)
/* OCaml 4: variables of the runtime before and after the generator. Their order is the order in
 * which the runtime's files are linked. The memory between two variables can be read if they are
 * close. */
#define MOST_BETWEEN 16384u

extern void *caml_memprof_young_trigger WEAK;
extern void caml_memprof_renew_minor_sample(void) WEAK;
extern void caml_update_young_limit(void) WEAK;
/* OCaml 5. The first draws the next sample of the minor heap. */
extern void caml_memprof_set_trigger(domain_state *state) WEAK;
extern void caml_reset_young_limit(domain_state *state) WEAK;

/* SplitMix64, by Sebastiano Vigna, which is in the public domain. */
#define STEP 0x9e3779b97f4a7c15u
#define FACTOR1 0xbf58476d1ce4e5b9u
#define FACTOR2 0x94d049bb133111ebu

static uint64_t next(uint64_t *seed)
{
	uint64_t z = *seed += STEP;

	z = (z ^ z >> 30) * FACTOR1;
	z = (z ^ z >> 27) * FACTOR2;
	return z ^ z >> 31;
}

/* Inverts z ^ z >> bits. */
static uint64_t unshift(uint64_t out, unsigned bits)
{
	uint64_t z = out;

	for (unsigned known = bits; known < 64; known += bits)
		z = out ^ z >> bits;
	return z;
}

/* Returns the seed from which next() has made this number. */
static uint64_t seed_of(uint64_t out)
{
	const uint64_t inverse1 = 0x96de1b173f119089u,
		       inverse2 = 0x319642b2d24d8ec3u; /* mod 2^64 */

	out = unshift(out, 31) * inverse2;
	out = unshift(out, 27) * inverse1;
	return unshift(out, 30) - STEP;
}

static uint64_t pair(const uint32_t *state, unsigned i)
{
	return state[i] | (uint64_t)state[i + STREAMS] << 32;
}

int memprof_is_unused_generator(const uint32_t *state)
{
	uint64_t seed = seed_of(pair(state, 0));

	for (unsigned i = 0; i < STREAMS; i++)
		if (pair(state, i) != next(&seed) || pair(state + 2 * STREAMS, i) != next(&seed))
			return 0;
	return 1;
}

static void fill(uint32_t *state, uint64_t seed)
{
	for (unsigned i = 0; i < 2 * STREAMS; i++) {
		uint64_t random = next(&seed);

		state[2 * i] = (uint32_t)random;
		state[2 * i + 1] = (uint32_t)(random >> 32);
	}
}

/* The watcher's token is random; the rest makes forked children and domains differ. */
static uint64_t new_seed(const uint32_t *state)
{
	uint64_t seed = memprof_agent_control.owner[0] ^ __builtin_ia32_rdtsc();
	uint64_t mixed = next(&seed) ^ memprof_agent_control.owner[1] ^ (uintptr_t)state;

	return next(&mixed) ^ memprof_now_ns();
}

/* Returns null if there is no unused generator. */
static uint32_t *find_between(uintptr_t from, uintptr_t to)
{
	const uintptr_t bytes = WORDS * sizeof(uint32_t);

	if (from > to || to - from > MOST_BETWEEN)
		return 0;
	for (from = (from + ALIGNMENT - 1) & -ALIGNMENT; from + bytes <= to; from += ALIGNMENT)
		if (memprof_is_unused_generator((uint32_t *)from))
			return (uint32_t *)from;
	return 0;
}

void memprof_seed_program(void)
{
	static int has_looked;
	static uint32_t *state;

	if (!has_looked) {
		if (!&caml_memprof_young_trigger || !memprof_make_generator())
			return;
		has_looked = 1;
		state = find_between((uintptr_t)&caml_memprof_young_trigger,
				     (uintptr_t)&Caml_state);
	}
	if (state)
		fill(state, new_seed(state));
}

/* At a low rate most draws have no sample in this minor heap. */
#define MOST_DRAWS 4096

/* While the runtime runs callbacks of ours it is suspended, and must not sample: then no draw has a
 * sample. A draw that has one proves that it may sample anywhere, and the place is moved to the
 * begin of the empty minor heap. */
void memprof_sample_next(void)
{
	void **heap_start, **heap_end;

	if (!&caml_memprof_young_trigger || !caml_memprof_renew_minor_sample ||
	    !caml_update_young_limit || !&Caml_state)
		return;
	heap_start = (void **)(Caml_state + MEMPROF_OCAML4_YOUNG_ALLOC_START);
	heap_end = (void **)(Caml_state + MEMPROF_OCAML4_YOUNG_ALLOC_END);
	for (int i = 0; i < MOST_DRAWS; i++) {
		caml_memprof_renew_minor_sample();
		if (caml_memprof_young_trigger == *heap_start)
			continue;
		caml_memprof_young_trigger = *heap_end;
		caml_update_young_limit();
		return;
	}
}

/* Returns null if other known facts about the runtime do not fit. */
static uint32_t *generator_of(domain_state *state)
{
	const struct memprof_runtime_offsets *offsets = &memprof_agent_control.offsets;
	char *memprof;

	if (offsets->memprof == 0 || offsets->memprof_config != PROFILE_AT)
		return 0;
	memprof = *(char **)(state + offsets->memprof);
	if (!memprof || *(domain_state **)memprof != state)
		return 0;
	return (uint32_t *)(memprof + GENERATOR_AT);
}

/* Returns the generator of this domain with a seed of its own; null if it has got none. */
static uint32_t *seed_domain(void)
{
	static atomic_int is_proven; /* proven for one domain, which holds for all others */
	uint32_t *state = generator_of(caml_state);

	if (!state)
		return 0;
	if (!atomic_load(&is_proven) && !memprof_is_unused_generator(state))
		return 0;
	atomic_store(&is_proven, 1);
	fill(state, new_seed(state));
	return state;
}

void memprof_seed_domain(void) { (void)seed_domain(); }

/* What the runtime keeps behind the generator of a domain. */
struct drawn {
	uint64_t numbers[STREAMS]; /* drawn in advance */
	uint32_t used;		   /* number of them in use */
	uint64_t until_large;	   /* words until the next sample of a large block */
};

/* In a new domain the first number is that of the next large block, less one. */
static int is_as_expected(const struct drawn *drawn)
{
	return drawn->used >= 1 && drawn->used <= STREAMS &&
	       drawn->until_large == drawn->numbers[0] - 1;
}

/* Without this, the first large block of each such domain would have the samples of its siblings'
 * first one. */
static void draw_large(struct drawn *drawn)
{
	if (drawn->used >= STREAMS)
		caml_memprof_set_trigger(caml_state); /* draws new ones */
	if (drawn->used < STREAMS)
		drawn->until_large = drawn->numbers[drawn->used++] - 1;
}

/* The runtime has made a number of each stream with the seed that all domains get. A domain that
 * allocates little would never use others, and its samples would be those of its siblings. */
void memprof_seed_new_domain(void)
{
	static atomic_int is_proven; /* proven for one domain, which holds for all others */
	uint32_t *state = seed_domain();
	struct drawn *drawn;

	if (!state || !caml_memprof_set_trigger || !caml_reset_young_limit)
		return;
	drawn = (struct drawn *)(state + WORDS);
	if (is_as_expected(drawn))
		atomic_store(&is_proven, 1);
	for (int i = 0; i < STREAMS; i++)
		caml_memprof_set_trigger(caml_state);
	if (atomic_load(&is_proven))
		draw_large(drawn);
	caml_reset_young_limit(caml_state);
}
