/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that have released the runtime lock. Where OCaml code called C is what the runtime has
 * noted, but without the lock a thread cannot know whose note that is now (OCaml 4), or has none
 * (OCaml 5). So each one remembers its own when it lets go of the lock, for as long as it has not
 * got it back.
 */
#ifndef MEMPROF_BLOCKING_H
#define MEMPROF_BLOCKING_H

#include <stdint.h>

#include "include/memprof_c_heap_abi.h"

/* The runtime calls us when a lock is released or taken, from here until the other. note_place: of
 * struct memprof_c_heap; 0: it does not. */
void memprof_blocking_begin(uint64_t note_place);
void memprof_blocking_end(void);
/* Hooks that lead to us. */
extern int memprof_blocking_hooks;
/* Adds what this thread has remembered in this session, if it has. */
void memprof_blocking_note(uint32_t session, struct memprof_c_event *event);

#endif
