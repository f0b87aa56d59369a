/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of OCaml 5, where each domain samples by itself; see domains.c. */
#ifndef MEMPROF_DOMAINS_H
#define MEMPROF_DOMAINS_H

#include "runtime_abi.h"

/* Once, when the agent is loaded: what the hook calls where the runtime may run callbacks, and
 * whether a session is to run that does not yet. */
void memprof_domains_load(void (*work)(void), int (*is_due)(void));
/* Whether the program's runtime is OCaml 5. */
int memprof_has_domains(void);
/* Whether it has everything that sessions need, and the watcher has told the offsets. */
int memprof_domains_usable(void);

/* Where the runtime may run callbacks: whether a domain samples by itself; -1: the world
 * could not be stopped to look. */
int memprof_domains_in_use(void);
/* In the same places: all domains begin to sample soon, at the latest after their next minor
 * collection. */
void memprof_domains_start(void);
/* Where the runtime may run callbacks, or in one: no domain samples when it returns. 0:
 * the world could not be stopped, and all go on. */
int memprof_domains_stop(void);
/* Whether the program sampled by itself when it did. */
int memprof_domains_in_use_at_stop(void);
/* Profiles are to be discarded once all domains have passed, unless a session is due then. */
void memprof_domains_clear(void);
/* Where the runtime may run callbacks: clears the last session away, if that is possible
 * already, and tells. */
int memprof_domains_cleared(void);
/* The same for what it has left to be followed by a session that is not due any more. */
void memprof_domains_forget(void);

/* Whether this domain samples with a profile of ours. */
int memprof_domain_samples(void);
/* At the end of a minor collection of this domain, in a session: it joins, if it does not
 * sample; when the session is over, has the work called soon. */
void memprof_domains_remind(int session_is_over);
/* In the same places, without a session: has the work called soon. */
void memprof_domains_call_back(void);
/* At the end of a minor collection of a session: the hooks are ours again, once, if systhreads has
 * been initialised after the session began and has put its own there. */
void memprof_domains_keep_hooks(void);

#endif
