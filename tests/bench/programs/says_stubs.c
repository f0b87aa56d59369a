/* SPDX-License-Identifier: Apache-2.0 */
/* The work of says.ml in C code, with or without a point's hit in each turn. */
#include <caml/mlvalues.h>
#include <stdint.h>

#include "memprof_values.h"

static uint64_t step(uint64_t x) {
  x ^= x << 13;
  x ^= x >> 7;
  return x ^ x << 17;
}

value says_c_work(value hits, value turns) {
  memprof_point point = memprof_point_create("turns in C", NULL, NULL);
  volatile uint64_t result;
  uint64_t x = 1;

  for (intnat i = 0; i < Long_val(turns); i++) {
    x = step(step(step(x)));
    if (Bool_val(hits)) memprof_point_hit(point);
  }
  result = x;
  (void)result;
  return Val_unit;
}
