/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that stand in for those of the C library in slots. They may be called under any
 * lock, in the dynamic linker, in a signal handler, by a thread that never saw OCaml: they allocate
 * nothing, take no lock, call no function that might, and leave errno alone.
 */
#ifndef MEMPROF_C_HOOKS_H
#define MEMPROF_C_HOOKS_H

#include <stdint.h>

enum memprof_c_function {
	MEMPROF_C_MALLOC,
	MEMPROF_C_CALLOC,
	MEMPROF_C_REALLOC,
	MEMPROF_C_FREE,
	MEMPROF_C_ALIGNED_ALLOC,
	MEMPROF_C_POSIX_MEMALIGN,
	MEMPROF_C_MEMALIGN,
	MEMPROF_C_FUNCTIONS,
};

extern const char *const memprof_c_names[MEMPROF_C_FUNCTIONS];
extern void *const memprof_c_hooks[MEMPROF_C_FUNCTIONS];
/* The C library's own, 0 where it has none; set before a slot has a hook. */
extern void *memprof_c_real[MEMPROF_C_FUNCTIONS];

#endif
