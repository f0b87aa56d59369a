// SPDX-License-Identifier: Apache-2.0
#include <alloca.h>
#include <caml/callback.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <stdlib.h>
#include <string.h>

static void* volatile last;
static volatile long argument;

value callback_malloc_put(value n) {
  argument = Long_val(n);
  return Val_unit;
}

static __attribute__((noinline)) void library(char* room, size_t bytes) {
  room[0] = 1; /* the rest still contains the callback's stack */
  last = memset(malloc(bytes), (int)argument, bytes);
}

value callback_malloc_call(value f, value n, value bytes) {
  CAMLparam3(f, n, bytes);

  caml_callback(f, n);
  if (Long_val(bytes) != 0) library(alloca(1000), Long_val(bytes));
  CAMLreturn(Val_unit);
}

value callback_malloc_take(value n) {
  (void)n;
  library(alloca(1000), 1000);
  return Val_unit;
}
