/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of OCaml 5, where each domain samples by itself; see domains.c. */
#ifndef MEMPROF_DOMAINS_H
#define MEMPROF_DOMAINS_H

#include "runtime_abi.h"

/* Called once, when the agent is loaded. The hook calls work where the runtime may run callbacks;
 * is_due reports whether a session is requested that does not run yet. */
void memprof_domains_load(void (*work)(void), int (*is_due)(void));
/* True if the program's runtime is OCaml 5. */
int memprof_has_domains(void);
/* True if it has everything that sessions need, and the watcher has supplied the offsets. */
int memprof_domains_usable(void);

/* The next functions may be called only where the runtime may run callbacks. */

/* True if the program itself samples in some domain; -1 if the world could not be stopped. */
int memprof_domains_in_use(void);
/* Starts sampling in all domains, in each at the latest after its next minor collection. */
void memprof_domains_start(void);
/* Stops sampling in all domains; may also be called in a callback. Returns 0 if the world could not
 * be stopped; then all domains continue to sample. */
int memprof_domains_stop(void);
/* True if the program itself sampled in some domain at the last memprof_domains_stop(). */
int memprof_domains_in_use_at_stop(void);
/* Requests that profiles are discarded once no domain can be in a sampling function, unless a
 * session is due then. */
void memprof_domains_clear(void);
/* Discards the profiles of the last session if that is possible already. Returns true if done. */
int memprof_domains_cleared(void);
/* Discards the profiles that were kept for a following session, which is no longer due. */
void memprof_domains_forget(void);

/* True if this domain samples with a profile of ours. */
int memprof_domain_samples(void);
/* Called at the end of a minor collection of this domain, in a session. A domain that does not
 * sample yet joins the session. If the session is over, the hook soon calls work. */
void memprof_domains_remind(int session_is_over);
/* Called in the same places, without a session: makes the hook call work soon. */
void memprof_domains_call_back(void);
/* Called at the end of a minor collection of a session. Restores our hooks, once, if systhreads was
 * initialised after the session began and replaced them. */
void memprof_domains_keep_hooks(void);

/* Per-domain counters, from which the watcher sums up all allocations (domain_words.c). */

/* A domain calls each of these itself: when it begins, joins a session, and ends, and at the end of
 * a minor collection. */
void memprof_domain_begins(void);
void memprof_domain_joins(void);
void memprof_domain_ends(void);
void memprof_domain_collected(void);

/* Returns the number of words that a domain has allocated. */
uint64_t memprof_domain_allocated(domain_state *state);

#endif
