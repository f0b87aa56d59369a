/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel which accesses to this process's memory are possible, so that a page that is
 * missing or truncated causes no fault. */
#ifndef MEMPROF_OWN_MEMORY_H
#define MEMPROF_OWN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#define MEMPROF_PAGE ((uintptr_t)4096)

static inline uintptr_t memprof_page_of(uintptr_t at) { return at & -MEMPROF_PAGE; }

/* True if the whole range can be read; false if the kernel gives no answer. */
int memprof_is_readable(uintptr_t at, size_t bytes);
/* True if the word can be written. The word keeps its value, even if another thread writes it
 * meanwhile. */
int memprof_is_writable(uintptr_t at);

#endif
