/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: what Gc.Memprof runs. OCaml 4 has one; OCaml 5 has one of each domain that
 * started it, which the domains that it spawns use too.
 *
 * Profiles of OCaml 5 are stopped by their status, as caml_memprof_stop and
 * caml_memprof_discard do; the runtime may go on looking at them, so that they stay roots
 * until then.
 */
#ifndef MEMPROF_PROFILES_H
#define MEMPROF_PROFILES_H

#include "buffers.h"
#include "runtime_abi.h"

/* Frames that the runtime is to record of a sample which the agent walks the stack for: the
 * innermost one tells combined allocations apart and proves the walk, and in OCaml 4 a sample whose
 * callback is late makes a block that its stack is found by. */
#ifndef MEMPROF_WALKED_CALLSTACK_SIZE
#define MEMPROF_WALKED_CALLSTACK_SIZE 1
#endif
/* OCaml 5: of all others. */
#ifndef MEMPROF_UNWALKED_CALLSTACK_SIZE
#define MEMPROF_UNWALKED_CALLSTACK_SIZE ((intptr_t)MEMPROF_PACKED_FRAMES)
#endif

/* Once, when the agent is loaded. first_callback tells our profiles from others. */
void memprof_profiles_load(value tracker, value first_callback);

/* What profiles are to be from now on. No profile samples that is kept. */
void memprof_set_profile(double rate, intptr_t callstack_size);
/* Where the runtime may run callbacks, in a collection hook of OCaml 4 too: starts a
 * profile, in OCaml 5 of this domain; IS_EXCEPTION_RESULT when one runs already. */
value memprof_start_profile(void);
/* Whether this thread is inside of that. */
int memprof_starts_profile(void);

/* The rest is OCaml 5 only. */

/* What a domain samples with, VAL_UNIT when nothing. */
value memprof_profile_of(domain_state *state);
int memprof_is_sampling(value profile);
int memprof_is_ours(value profile);
/* Where the runtime may run callbacks, before the first profile that samples: whether the
 * runtime keeps profiles where the watcher says; -1: not known, the program samples. */
int memprof_profile_place_is_right(void);

/* Whether there is room for the profiles of all domains that may be starting one now. */
int memprof_profiles_have_room(void);
/* Whether there are profiles that are stopped and not discarded. */
int memprof_profiles_follow(void);
/* Remembers a profile of the session. */
void memprof_keep_profile(value profile);
/* In a section: none of the profiles kept samples any longer. Those that do not go on telling
 * of their blocks until they are discarded. */
void memprof_mark_profiles_stopped(void);
/* Discards those, once no domain can be in the middle of a sampling function. One call at a
 * time: discarding a profile twice would raise. */
void memprof_discard_profiles(void);
/* The same for those of sessions that another one, about to begin, does not go on following.
 * Answers with the generation of the oldest session that it does, maybe its own. */
uint32_t memprof_discard_old_profiles(uint32_t generation);
/* Ends a profile of this domain that nobody else uses. */
void memprof_end_profile(value profile);

#endif
