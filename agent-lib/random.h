/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generator of the runtime's samples (runtime/memprof.c): 64 streams of xoshiro128+, which the
 * runtime seeds with a constant, so that programs which do the same would have the same samples,
 * and their errors would add up instead of averaging out. It gets a seed of its own before each
 * session.
 *
 * Where it is has to be proven: a generator that was seeded and not used yet has a content that no
 * other memory has. OCaml 5 has one of each domain, in what Memprof keeps of it; OCaml 4.12
 * to 4.14 has one between two of the runtime's other variables. What is not found keeps its seed.
 */
#ifndef MEMPROF_RANDOM_H
#define MEMPROF_RANDOM_H

#include "runtime_abi.h"

/* OCaml 4: called where the runtime may run callbacks, before a session. The first call starts and
 * stops a profile without a rate, so that a generator exists. */
void memprof_seed_program(void);
/* OCaml 5: called on a domain that will sample, before its profile starts. */
void memprof_seed_domain(void);

/* Returns whether this is a generator that was seeded and has not been used. */
int memprof_is_unused_generator(const uint32_t *state);

#endif
