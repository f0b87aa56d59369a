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

#include "runtime_abi.h"

/* Once, when the agent is loaded. first_callback tells our profiles from others. */
void memprof_profiles_load(value tracker, value first_callback);

/* What profiles are to be from now on. No profile samples that is kept. */
void memprof_set_profile(double rate, intptr_t callstack_size);
/* Where the runtime may run callbacks, in a collection hook of OCaml 4 too: starts a
 * profile, in OCaml 5 of this domain; IS_EXCEPTION_RESULT when one runs already. */
value memprof_start_profile(void);

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
/* Remembers a profile of the session. */
void memprof_keep_profile(value profile);
/* In a section: none of the profiles kept samples any longer. */
void memprof_mark_profiles_stopped(void);
/* Discards those, once no domain can be in the middle of a sampling function. */
void memprof_discard_profiles(void);
/* Ends a profile of this domain that nobody else uses. */
void memprof_end_profile(value profile);

#endif
