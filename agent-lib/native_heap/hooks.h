/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that replace those of the C library in slots. They may be called under any lock, in the
 * dynamic linker, in a signal handler, or by a thread without OCaml code. So they allocate nothing,
 * take no lock, call no function that might do so, and preserve errno. */
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
	MEMPROF_C_REALLOCARRAY,
	MEMPROF_C_STANDARD, /* every malloc has those above, or the C library builds them on it */
	MEMPROF_C_FREE_SIZED = MEMPROF_C_STANDARD,
	MEMPROF_C_FREE_ALIGNED_SIZED,
	MEMPROF_C_CFREE,
	MEMPROF_C_DALLOCX,
	MEMPROF_C_SDALLOCX,
	/* C++ operators that the malloc defines itself, without calling its own malloc(). */
	MEMPROF_C_NEW,
	MEMPROF_C_NEW_ARRAY,
	MEMPROF_C_NEW_NOTHROW,
	MEMPROF_C_NEW_ARRAY_NOTHROW,
	MEMPROF_C_NEW_ALIGNED,
	MEMPROF_C_NEW_ARRAY_ALIGNED,
	MEMPROF_C_NEW_ALIGNED_NOTHROW,
	MEMPROF_C_NEW_ARRAY_ALIGNED_NOTHROW,
	MEMPROF_C_DELETE,
	MEMPROF_C_DELETE_ARRAY,
	MEMPROF_C_DELETE_SIZED,
	MEMPROF_C_DELETE_ARRAY_SIZED,
	MEMPROF_C_DELETE_ALIGNED,
	MEMPROF_C_DELETE_ARRAY_ALIGNED,
	MEMPROF_C_DELETE_SIZED_ALIGNED,
	MEMPROF_C_DELETE_ARRAY_SIZED_ALIGNED,
	MEMPROF_C_DELETE_NOTHROW,
	MEMPROF_C_DELETE_ARRAY_NOTHROW,
	MEMPROF_C_DELETE_ALIGNED_NOTHROW,
	MEMPROF_C_DELETE_ARRAY_ALIGNED_NOTHROW,
	/* The call by which a program installs a seccomp filter. */
	MEMPROF_C_PRCTL,
	MEMPROF_C_FUNCTIONS,
};

extern const char *const memprof_c_names[MEMPROF_C_FUNCTIONS];
extern void *const memprof_c_hooks[MEMPROF_C_FUNCTIONS];
/* True if the function allocates memory, as realloc also does. */
static inline int memprof_c_takes(int which)
{
	return (which < MEMPROF_C_STANDARD && which != MEMPROF_C_FREE) ||
	       (which >= MEMPROF_C_NEW && which < MEMPROF_C_DELETE);
}
/* The functions of the program's malloc, 0 if it lacks one; set before a slot has a hook. */
extern void *memprof_c_real[MEMPROF_C_FUNCTIONS];

#endif
