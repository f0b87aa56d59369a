/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the roots of a program's copy, in sections, as the runtime's own scanners find them. The
 * scanners only read, and take no lock that may be held. Nothing here calls the C library. */
#ifndef MEMPROF_COPY_ROOTS_H
#define MEMPROF_COPY_ROOTS_H

#include "include/memprof_snapshot_abi.h"
#include "runtime_abi.h"

/* Reserves memory for the list. Pages are allocated when they are written. */
int memprof_roots_make_room(void);
void memprof_note_root(value held, value *slot);
/* Number of noted roots. memprof_roots_go_back() drops the later ones; the next roots replace
 * them. */
uint64_t memprof_roots_noted(void);
void memprof_roots_go_back(uint64_t noted);
/* Ends a section: the roots noted since the previous one have this kind and domain. */
void memprof_end_root_section(enum memprof_root_kind kind, uint32_t domain);
/* Reports the place of the roots to the watcher. Returns 0 if there was no room for all. */
int memprof_report_roots(struct memprof_snapshot *snapshot);

/* True if the runtime is of that series and has all scanners. */
int memprof_can_scan_ocaml4(void);
int memprof_can_scan_ocaml5(void);
void memprof_scan_ocaml4(const struct memprof_state_layout *at);
/* Scans the domains in the runtime's list, with their states. */
void memprof_scan_ocaml5(const struct memprof_state_layout *at, domain_state *const *domains,
			 uint32_t count);

#endif
