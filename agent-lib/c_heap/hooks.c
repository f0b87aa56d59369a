/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks.h"

#include <stddef.h>

#include "c_blocks.h"
#include "sampled_blocks.h"
#include "sampler.h"

typedef void *malloc_function(size_t);
typedef void *calloc_function(size_t, size_t);
typedef void *realloc_function(void *, size_t);
typedef void free_function(void *);
typedef void *aligned_function(size_t, size_t);
typedef int posix_memalign_function(void **, size_t, size_t);

void *memprof_c_real[MEMPROF_C_FUNCTIONS];

#define REAL(type, which) ((type *)memprof_c_real[which])

/* Calls that have no sample end in a jump: the C library sees its caller as ever. */

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
		memprof_c_freed(memprof_sampled_take(block));
	REAL(free_function, MEMPROF_C_FREE)(block);
}

/* A sampled block is none any more before another thread can get its address; when there was no
 * memory it still is one. */
static void *resize_sampled(void *block, size_t bytes)
{
	uint64_t number = memprof_sampled_take(block);
	void *moved = REAL(realloc_function, MEMPROF_C_REALLOC)(block, bytes);

	if (number != 0 && !moved && bytes != 0) {
		memprof_c_still_there(block, number);
		return moved;
	}
	memprof_c_freed(number);
	return memprof_c_passes(bytes) ? moved : memprof_c_allocated(moved, bytes);
}

/* The old block ends and another one begins, though they may be at one address. */
static void *hook_realloc(void *block, size_t bytes)
{
	realloc_function *real = REAL(realloc_function, MEMPROF_C_REALLOC);

	if (__builtin_expect(memprof_may_be_sampled(block), 0))
		return resize_sampled(block, bytes);
	if (memprof_c_passes(bytes))
		return real(block, bytes);
	return memprof_c_allocated(real(block, bytes), bytes);
}

const char *const memprof_c_names[MEMPROF_C_FUNCTIONS] = {
	"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "memalign",
};
void *const memprof_c_hooks[MEMPROF_C_FUNCTIONS] = {
	hook_malloc,	    hook_calloc,	 hook_realloc,	hook_free,
	hook_aligned_alloc, hook_posix_memalign, hook_memalign,
};
