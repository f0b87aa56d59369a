/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml 5: the runtime's own tables of sampled blocks (runtime/memprof.c), which are wrong or late
 * in two cases.
 *
 *   Wrong. In 5.3, a domain checks its entries in a minor collection before other domains have
 *   promoted the blocks of these entries, and counts such blocks as dead. We note the block of each
 *   entry when the collection begins. When all domains have left it, a promoted block has the
 *   header 0 and its new address in its first field; the entry is corrected before or in its
 *   callback.
 *
 *   Late. A domain calls its callbacks itself, so a block that dies while the domain waits in a
 *   blocking section is reported when the domain runs again. Its backup thread reports it instead,
 *   in minor collections.
 *
 * A domain makes all calls, about its own entries; while it waits, its backup thread makes them.
 */
#ifndef MEMPROF_TRACKED_ENTRIES_H
#define MEMPROF_TRACKED_ENTRIES_H

#include "runtime_abi.h"

/* Called when a minor collection begins, on each domain. */
void memprof_entries_begin_collection(void);
/* Called first in each callback. */
void memprof_entries_mend(void);
/* Called in a callback for a death in the minor heap. Returns true if the block was promoted
 * instead; the runtime then calls back for its promotion when this callback returns Some. */
int memprof_entry_lives(void);

#endif
