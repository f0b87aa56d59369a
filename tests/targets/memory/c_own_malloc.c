/* SPDX-License-Identifier: Apache-2.0 */
/* A malloc whose functions call other functions that it exports, through slots as a program does.
 * It can be preloaded; or c_memory can load it as a library whose functions no other file
 * calls. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void *__libc_memalign(size_t alignment, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void __libc_free(void *block);

void *memalign(size_t alignment, size_t bytes) { return __libc_memalign(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
void *malloc(size_t bytes) { return aligned_alloc(16, bytes); }
void free(void *block) { __libc_free(block); }

int posix_memalign(void **block, size_t alignment, size_t bytes) {
  void *found = memalign(alignment, bytes);

  if (!found) return ENOMEM;
  *block = found;
  return 0;
}

void *calloc(size_t n, size_t each) {
  size_t bytes;
  void *block;

  if (__builtin_mul_overflow(n, each, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  block = malloc(bytes);
  return block ? memset(block, 0, bytes) : NULL;
}

void *realloc(void *block, size_t bytes) {
  return block ? __libc_realloc(block, bytes) : malloc(bytes);
}

/* The same as in c_memory_library.c. */
static void **kept;

long c_memory_library_keep(long bytes) {
  void **block = malloc((size_t)bytes);

  *block = kept;
  kept = block;
  return bytes;
}
