/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks.h"

#include <stddef.h>
#include <sys/prctl.h>

#include "native_blocks.h"
#include "sampled_blocks.h"
#include "sampler.h"

typedef void *malloc_function(size_t);
typedef void *calloc_function(size_t, size_t);
typedef void *realloc_function(void *, size_t);
typedef void free_function(void *);
typedef void *aligned_function(size_t, size_t);
typedef int posix_memalign_function(void **, size_t, size_t);
typedef void *reallocarray_function(void *, size_t, size_t);
typedef void *takes_function(size_t, long, long);
typedef void gives_back_function(void *, long, long);
typedef int prctl_function(int, long, long, long, long);

void *memprof_c_real[MEMPROF_C_FUNCTIONS];

#define REAL(type, which) ((type *)memprof_c_real[which])

/* Calls without a sample end in a jump, so that the C library sees its usual caller. */

static void *hook_malloc(size_t bytes)
{
	malloc_function *real = REAL(malloc_function, MEMPROF_C_MALLOC);

	if (memprof_c_passes(bytes))
		return real(bytes);
	return memprof_c_allocated(real(bytes), bytes);
}

static void *hook_calloc(size_t n, size_t each)
{
	calloc_function *real = REAL(calloc_function, MEMPROF_C_CALLOC);
	size_t bytes;

	if (__builtin_mul_overflow(n, each, &bytes) || memprof_c_passes(bytes))
		return real(n, each);
	return memprof_c_allocated(real(n, each), bytes);
}

static void *hook_aligned_alloc(size_t alignment, size_t bytes)
{
	aligned_function *real = REAL(aligned_function, MEMPROF_C_ALIGNED_ALLOC);

	if (memprof_c_passes(bytes))
		return real(alignment, bytes);
	return memprof_c_allocated(real(alignment, bytes), bytes);
}

static void *hook_memalign(size_t alignment, size_t bytes)
{
	aligned_function *real = REAL(aligned_function, MEMPROF_C_MEMALIGN);

	if (memprof_c_passes(bytes))
		return real(alignment, bytes);
	return memprof_c_allocated(real(alignment, bytes), bytes);
}

static int hook_posix_memalign(void **block, size_t alignment, size_t bytes)
{
	posix_memalign_function *real = REAL(posix_memalign_function, MEMPROF_C_POSIX_MEMALIGN);
	int error;

	if (memprof_c_passes(bytes))
		return real(block, alignment, bytes);
	error = real(block, alignment, bytes);
	if (error == 0)
		memprof_c_allocated(*block, bytes);
	return error;
}

static void hook_free(void *block)
{
	if (__builtin_expect(memprof_may_be_sampled(block), 0))
		memprof_c_freed(block, memprof_sampled_take(block));
	REAL(free_function, MEMPROF_C_FREE)(block);
}

/* A sampled block ends before another thread can get its address. If there was no memory, it
 * continues. */
static void *resize_sampled(void *block, size_t bytes)
{
	uint64_t number = memprof_sampled_take(block);
	void *moved = REAL(realloc_function, MEMPROF_C_REALLOC)(block, bytes);

	if (number != 0 && !moved && bytes != 0) {
		memprof_c_still_there(block, number);
		return moved;
	}
	memprof_c_freed(block, number);
	return memprof_c_passes(bytes) ? moved : memprof_c_allocated(moved, bytes);
}

/* The old block ends and a new one begins, even if both have the same address. */
static void *hook_realloc(void *block, size_t bytes)
{
	realloc_function *real = REAL(realloc_function, MEMPROF_C_REALLOC);

	if (__builtin_expect(memprof_may_be_sampled(block), 0))
		return resize_sampled(block, bytes);
	if (memprof_c_passes(bytes))
		return real(block, bytes);
	return memprof_c_allocated(real(block, bytes), bytes);
}

/* Does not call the C library's function, which is built on its realloc. */
static void *hook_reallocarray(void *block, size_t n, size_t each)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, each, &bytes))
		return REAL(reallocarray_function, MEMPROF_C_REALLOCARRAY)(block, n, each);
	return hook_realloc(block, bytes);
}

/* Functions that allocate or free like malloc and free; all their arguments are passed on
 * unchanged. A C++ exception passes through us. */
#define TAKES(name, which)                                                                         \
	static void *hook_##name(size_t bytes, long a, long b)                                     \
	{                                                                                          \
		takes_function *real = REAL(takes_function, which);                                \
                                                                                                   \
		if (memprof_c_passes(bytes))                                                       \
			return real(bytes, a, b);                                                  \
		return memprof_c_allocated(real(bytes, a, b), bytes);                              \
	}
#define GIVES_BACK(name, which)                                                                    \
	static void hook_##name(void *block, long a, long b)                                       \
	{                                                                                          \
		if (__builtin_expect(memprof_may_be_sampled(block), 0))                            \
			memprof_c_freed(block, memprof_sampled_take(block));                       \
		REAL(gives_back_function, which)(block, a, b);                                     \
	}

GIVES_BACK(free_sized, MEMPROF_C_FREE_SIZED)
GIVES_BACK(free_aligned_sized, MEMPROF_C_FREE_ALIGNED_SIZED)
GIVES_BACK(cfree, MEMPROF_C_CFREE)
GIVES_BACK(dallocx, MEMPROF_C_DALLOCX)
GIVES_BACK(sdallocx, MEMPROF_C_SDALLOCX)
TAKES(new, MEMPROF_C_NEW)
TAKES(new_array, MEMPROF_C_NEW_ARRAY)
TAKES(new_nothrow, MEMPROF_C_NEW_NOTHROW)
TAKES(new_array_nothrow, MEMPROF_C_NEW_ARRAY_NOTHROW)
TAKES(new_aligned, MEMPROF_C_NEW_ALIGNED)
TAKES(new_array_aligned, MEMPROF_C_NEW_ARRAY_ALIGNED)
TAKES(new_aligned_nothrow, MEMPROF_C_NEW_ALIGNED_NOTHROW)
TAKES(new_array_aligned_nothrow, MEMPROF_C_NEW_ARRAY_ALIGNED_NOTHROW)
GIVES_BACK(delete, MEMPROF_C_DELETE)
GIVES_BACK(delete_array, MEMPROF_C_DELETE_ARRAY)
GIVES_BACK(delete_sized, MEMPROF_C_DELETE_SIZED)
GIVES_BACK(delete_array_sized, MEMPROF_C_DELETE_ARRAY_SIZED)
GIVES_BACK(delete_aligned, MEMPROF_C_DELETE_ALIGNED)
GIVES_BACK(delete_array_aligned, MEMPROF_C_DELETE_ARRAY_ALIGNED)
GIVES_BACK(delete_sized_aligned, MEMPROF_C_DELETE_SIZED_ALIGNED)
GIVES_BACK(delete_array_sized_aligned, MEMPROF_C_DELETE_ARRAY_SIZED_ALIGNED)
GIVES_BACK(delete_nothrow, MEMPROF_C_DELETE_NOTHROW)
GIVES_BACK(delete_array_nothrow, MEMPROF_C_DELETE_ARRAY_NOTHROW)
GIVES_BACK(delete_aligned_nothrow, MEMPROF_C_DELETE_ALIGNED_NOTHROW)
GIVES_BACK(delete_array_aligned_nothrow, MEMPROF_C_DELETE_ARRAY_ALIGNED_NOTHROW)

/* Inspecting slots makes system calls, for which a filter may kill the program. */
static int hook_prctl(int what, long a, long b, long c, long d)
{
	if (what == PR_SET_SECCOMP)
		memprof_c_heap.syscall_filter = MEMPROF_NATIVE_HEAP_FILTERED;
	else if (what == PR_SET_NO_NEW_PRIVS && memprof_c_heap.syscall_filter == 0)
		memprof_c_heap.syscall_filter = MEMPROF_NATIVE_HEAP_MAYBE_FILTERED;
	return REAL(prctl_function, MEMPROF_C_PRCTL)(what, a, b, c, d);
}

const char *const memprof_c_names[MEMPROF_C_FUNCTIONS] = {
	"malloc",
	"calloc",
	"realloc",
	"free",
	"aligned_alloc",
	"posix_memalign",
	"memalign",
	"reallocarray",
	"free_sized",
	"free_aligned_sized",
	"cfree",
	"dallocx",
	"sdallocx",
	"_Znwm",
	"_Znam",
	"_ZnwmRKSt9nothrow_t",
	"_ZnamRKSt9nothrow_t",
	"_ZnwmSt11align_val_t",
	"_ZnamSt11align_val_t",
	"_ZnwmSt11align_val_tRKSt9nothrow_t",
	"_ZnamSt11align_val_tRKSt9nothrow_t",
	"_ZdlPv",
	"_ZdaPv",
	"_ZdlPvm",
	"_ZdaPvm",
	"_ZdlPvSt11align_val_t",
	"_ZdaPvSt11align_val_t",
	"_ZdlPvmSt11align_val_t",
	"_ZdaPvmSt11align_val_t",
	"_ZdlPvRKSt9nothrow_t",
	"_ZdaPvRKSt9nothrow_t",
	"_ZdlPvSt11align_val_tRKSt9nothrow_t",
	"_ZdaPvSt11align_val_tRKSt9nothrow_t",
	"prctl",
};
void *const memprof_c_hooks[MEMPROF_C_FUNCTIONS] = {
	hook_malloc,
	hook_calloc,
	hook_realloc,
	hook_free,
	hook_aligned_alloc,
	hook_posix_memalign,
	hook_memalign,
	hook_reallocarray,
	hook_free_sized,
	hook_free_aligned_sized,
	hook_cfree,
	hook_dallocx,
	hook_sdallocx,
	hook_new,
	hook_new_array,
	hook_new_nothrow,
	hook_new_array_nothrow,
	hook_new_aligned,
	hook_new_array_aligned,
	hook_new_aligned_nothrow,
	hook_new_array_aligned_nothrow,
	hook_delete,
	hook_delete_array,
	hook_delete_sized,
	hook_delete_array_sized,
	hook_delete_aligned,
	hook_delete_array_aligned,
	hook_delete_sized_aligned,
	hook_delete_array_sized_aligned,
	hook_delete_nothrow,
	hook_delete_array_nothrow,
	hook_delete_aligned_nothrow,
	hook_delete_array_aligned_nothrow,
	hook_prctl,
};
