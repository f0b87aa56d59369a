/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that have released the runtime lock. The runtime's note of where OCaml code called C may
 * belong to another thread meanwhile (OCaml 4), or is absent (OCaml 5). So each thread remembers
 * its own note when it releases the lock, until it has the lock again.
 */
#ifndef MEMPROF_BLOCKING_H
#define MEMPROF_BLOCKING_H

#include <stdint.h>

#include "include/memprof_native_heap_abi.h"

/* The runtime calls us when a lock is released or taken, from here until the other. note_place: of
 * struct memprof_c_heap; 0: it does not. */
void memprof_blocking_begin(uint64_t note_place);
void memprof_blocking_end(void);
/* Hooks that lead to us. */
extern int memprof_blocking_hooks;
/* Adds what this thread has remembered in this session, if it has. */
void memprof_blocking_note(uint32_t session, struct memprof_c_event *event);

#endif
