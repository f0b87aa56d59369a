/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMPROF_SNAPSHOT_DOMAINS_H
#define MEMPROF_SNAPSHOT_DOMAINS_H

#include "runtime_abi.h"

/* Called at the safe point. While no domain runs, calls copy with all domains, which clones, and
 * returns its result. Returns -ETIME if the domains did not stop together before that time
 * (CLOCK_MONOTONIC). */
long memprof_copy_domains(long (*copy)(domain_state **domains, int count), uint64_t until_ns);

#endif
