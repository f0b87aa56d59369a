/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMPROF_SNAPSHOT_DOMAINS_H
#define MEMPROF_SNAPSHOT_DOMAINS_H

#include "runtime_abi.h"

/* Called at the safe point: calls copy, which clones and receives the domains, while none of them
 * runs, and returns its result. -ETIME: the domains did not stop together before that time
 * (CLOCK_MONOTONIC). */
long memprof_copy_domains(long (*copy)(domain_state **domains, int count), uint64_t until_ns);

#endif
