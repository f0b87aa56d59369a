/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMPROF_SNAPSHOT_DOMAINS_H
#define MEMPROF_SNAPSHOT_DOMAINS_H

#include "runtime_abi.h"

/* At the safe point: calls copy, which clones and is told the domains, while none of them runs,
 * and answers what it does. -ETIME: they have not come to stand still
 * together by then (CLOCK_MONOTONIC). */
long memprof_copy_domains(long (*copy)(domain_state **domains, int count), uint64_t until_ns);

#endif
