/* SPDX-License-Identifier: Apache-2.0 */
/* OCaml 5: per-domain counters, from which the watcher sums up all allocations. */
#ifndef MEMPROF_DOMAIN_WORDS_H
#define MEMPROF_DOMAIN_WORDS_H

#include "runtime_abi.h"

/* A domain calls each of these itself: when it begins, joins a session, and ends, and at the end of
 * a minor collection. */
void memprof_domain_begins(void);
void memprof_domain_joins(void);
void memprof_domain_ends(void);
void memprof_domain_collected(void);

/* Returns the number of words that a domain has allocated. */
uint64_t memprof_domain_allocated(domain_state *state);

#endif
