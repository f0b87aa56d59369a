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

/* From the first call until the second one the runtime calls our hooks when a lock is released or
 * taken. note_place: see struct memprof_c_heap; 0: unknown. */
void memprof_blocking_begin(uint64_t note_place);
void memprof_blocking_end(void);
/* Number of hooks that lead to our functions. */
extern int memprof_blocking_hooks;
/* Adds the note that this thread has remembered in this session, if any. */
void memprof_blocking_note(uint32_t session, struct memprof_c_event *event);

#endif
