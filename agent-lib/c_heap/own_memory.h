/* SPDX-License-Identifier: Apache-2.0 */
/* What may be done with memory of this process, asked of the kernel: a page that is not there, or
 * not as its file says, is then no fault. */
#ifndef MEMPROF_OWN_MEMORY_H
#define MEMPROF_OWN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#define MEMPROF_PAGE ((uintptr_t)4096)

static inline uintptr_t memprof_page_of(uintptr_t at) { return at & -MEMPROF_PAGE; }

/* Whether all of it can be read; none of it counts as readable when the kernel does not tell. */
int memprof_is_readable(uintptr_t at, size_t bytes);
/* Whether the word can be written. It keeps its value, whoever writes it meanwhile. */
int memprof_is_writable(uintptr_t at);

#endif
