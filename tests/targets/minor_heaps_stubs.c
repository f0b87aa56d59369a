/* SPDX-License-Identifier: Apache-2.0 */
/* Where the minor heap is, and what others write into the limit of its allocations. */
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

/* Minor heaps of OCaml 4 beyond 128 KiB are mapped, whatever was freed before; others are below, in
 * the heap. */
value minor_heaps_prepare(value unit) {
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  return unit;
}

/* What OCaml 5 maps next is below the fence when there is one, and above its place when it has
 * gone. */
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

/* For so many looks. Nobody else of this program has a reason to write the limit meanwhile. */
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
