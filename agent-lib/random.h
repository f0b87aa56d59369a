/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generator of the runtime's samples (runtime/memprof.c): 64 streams of xoshiro128+. The
 * runtime seeds it with a constant, so programs that do the same would get the same samples, and
 * their errors would add up instead of averaging out. Therefore it gets a new seed before each
 * session.
 *
 * Its address must be proved: a generator that was seeded and not used yet has contents that no
 * other memory has. In OCaml 5 each domain has one, in its Memprof state; in OCaml 4.12 to 4.14
 * there is one, between two other variables of the runtime. A generator that is not found keeps its
 * seed.
 */
#ifndef MEMPROF_RANDOM_H
#define MEMPROF_RANDOM_H

#include "runtime_abi.h"

/* OCaml 4: called where the runtime may run callbacks, before a session. The first call starts and
 * stops a profile without a rate, so that a generator exists. */
void memprof_seed_program(void);
/* OCaml 5: called on a domain that will sample, before its profile starts. */
void memprof_seed_domain(void);
/* OCaml 5: the same for a new domain that samples with its parent's profile, before its first
 * allocation. */
void memprof_seed_new_domain(void);

/* OCaml 4: call at the end of a minor collection while sampling: the next allocation of OCaml code
 * is a sample, so that a callback comes soon whatever the rate is. Not always: call it again at the
 * next collection. */
void memprof_sample_next(void);

/* True if this is a generator that was seeded and has not been used. */
int memprof_is_unused_generator(const uint32_t *state);

#endif
