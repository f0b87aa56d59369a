/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of Gc.Memprof. OCaml 4 has one. OCaml 5 has one for each domain that started one, and
 * domains that it spawns share it.
 *
 * Profiles of OCaml 5 are stopped by their status, as caml_memprof_stop and
 * caml_memprof_discard do. The runtime may still use a stopped profile, so it stays a root until it
 * is discarded.
 */
#ifndef MEMPROF_PROFILES_H
#define MEMPROF_PROFILES_H

#include "buffers.h"
#include "runtime_abi.h"

/* Frames that the runtime records for a sample whose stack the agent walks. The innermost one
 * distinguishes combined allocations and proves the walk; in OCaml 4 the stack of a late sample is
 * found by the block that this callstack occupies. */
#ifndef MEMPROF_WALKED_CALLSTACK_SIZE
#define MEMPROF_WALKED_CALLSTACK_SIZE 1
#endif
/* OCaml 5: frames that the runtime records for all other samples. */
#ifndef MEMPROF_UNWALKED_CALLSTACK_SIZE
#define MEMPROF_UNWALKED_CALLSTACK_SIZE ((intptr_t)MEMPROF_PACKED_FRAMES)
#endif

/* Called once, when the agent is loaded. first_callback identifies our profiles. */
void memprof_profiles_load(value tracker, value first_callback);

/* Sets the parameters of profiles that start from now on. No kept profile may be sampling. */
void memprof_set_profile(double rate, intptr_t callstack_size);
/* Starts a profile, in OCaml 5 for this domain. IS_EXCEPTION_RESULT if one runs already. May be
 * called where the runtime may run callbacks, in OCaml 4 also in a collection hook. */
value memprof_start_profile(void);
/* True if this thread is inside memprof_start_profile. */
int memprof_starts_profile(void);

/* OCaml 4: makes the runtime create its generator of samples. Returns 0 if the program samples. */
int memprof_make_generator(void);

/* The following functions are for OCaml 5 only. */

/* The profile with which a domain samples; VAL_UNIT if it does not sample. */
value memprof_profile_of(domain_state *state);
int memprof_is_sampling(value profile);
int memprof_is_ours(value profile);
/* True if the runtime keeps profiles at the offset that the watcher supplied; -1: unknown, because
 * the program itself samples. Call it where the runtime may run callbacks, before the first
 * profile that samples. */
int memprof_profile_place_is_right(void);

/* True if there is room for a new profile of every domain that may be starting one now. */
int memprof_profiles_have_room(void);
/* True if there are profiles that are stopped and not discarded. */
int memprof_profiles_follow(void);
/* Keeps a profile of the session. */
void memprof_keep_profile(value profile);
/* Called in a section: stops all kept profiles. They continue to report events of their blocks
 * until they are discarded. */
void memprof_mark_profiles_stopped(void);
/* Discards the stopped profiles. Call it once no domain can be in a sampling function, and never
 * from two threads at once: discarding a profile twice would raise. */
void memprof_discard_profiles(void);
/* Discards the stopped profiles that the session about to begin does not follow. Returns the
 * generation of the oldest session that it follows, possibly its own. */
uint32_t memprof_discard_old_profiles(uint32_t generation);
/* Ends a profile of this domain that no other domain uses. */
void memprof_end_profile(value profile);

#endif
