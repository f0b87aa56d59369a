/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml 5: the runtime's own tables of sampled blocks (runtime/memprof.c), which are wrong or late
 * in two cases.
 *
 *   Wrong. In 5.3 a domain looks at its entries in a minor collection before other domains have
 *   promoted what they lead to, and takes such blocks for dead. What an entry was of is noted when
 *   the collection begins. Once all domains have left it, a block that has been promoted has the
 *   header 0 and its new address in its first field: its entry is mended before its callback is
 *   called, or in it.
 *
 *   Late. A domain calls its callbacks itself: what dies while it waits in a blocking section is
 *   told when it runs again. Its backup thread tells it instead, in minor collections.
 *
 * All calls are of a domain about its own entries, or of its backup thread while it waits.
 */
#ifndef MEMPROF_TRACKED_ENTRIES_H
#define MEMPROF_TRACKED_ENTRIES_H

#include "runtime_abi.h"

/* Called when a minor collection begins, on each domain. */
void memprof_entries_begin_collection(void);
/* Called first in each callback. */
void memprof_entries_mend(void);
/* Called in a callback for a death in the minor heap. Returns whether the block was promoted
 * instead; the runtime then calls back for its promotion when this callback returns Some. */
int memprof_entry_lives(void);

#endif
