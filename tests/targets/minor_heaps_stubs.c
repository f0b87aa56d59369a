/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the place of the minor heap, and writes of others to the limit of its allocations. */
#define _GNU_SOURCE
#define CAML_INTERNALS
#define CAML_NAME_SPACE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <caml/mlvalues.h>

#include <caml/domain_state.h>

#define FENCE_BYTES (1ul << 37)

static long woken, moved_up;

/* Fixes the threshold for mappings: OCaml 4 maps minor heaps above 128 KiB, and allocates smaller
 * ones in the C heap, at lower addresses. */
value minor_heaps_prepare(value unit) {
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  return unit;
}

/* Adds or removes a large mapping. The next mapping of OCaml 5 lies below an existing fence, and
 * above the place of a removed one. */
value minor_heaps_fence(value unit) {
  static void* fence;

  if (fence) {
    munmap(fence, FENCE_BYTES);
    fence = NULL;
    return unit;
  }
  fence = mmap(NULL, FENCE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fence == MAP_FAILED) abort();
  return unit;
}

static unsigned long young_limit(void) {
  unsigned long start = (unsigned long)Caml_state->young_start;
  unsigned long limit = *(volatile unsigned long*)&Caml_state->young_limit;

  if (limit < start) {
    fprintf(stderr, "young_limit %#lx is below the minor heap at %#lx\n", limit, start);
    abort();
  }
  return limit;
}

/* Reads the limit `looks` times. This program itself has no reason to write it meanwhile. */
value minor_heaps_watch(value looks) {
  static unsigned long last_start;
  unsigned long start = (unsigned long)Caml_state->young_start, before = young_limit();

  moved_up += last_start != 0 && start > last_start;
  last_start = start;
  for (long i = 0; i < Long_val(looks); i++) {
    if (young_limit() != before) {
      woken++;
      break;
    }
  }
  return Val_unit;
}

value minor_heaps_woken(value unit) {
  (void)unit;
  return Val_long(woken);
}

value minor_heaps_moved_up(value unit) {
  (void)unit;
  return Val_long(moved_up);
}
