/* SPDX-License-Identifier: Apache-2.0 */
/* Declared here, because not every OCaml that compiles this file has its headers. */
#include <stdint.h>

typedef intptr_t value;
extern value caml_alloc_shr(uintptr_t words, unsigned tag);
#define ABSTRACT 251

/* Allocates blocks of one word in the major heap. */
value late_stacks_one_word(value count) {
  for (long i = 0; i < count >> 1; i++) *(value *)caml_alloc_shr(1, ABSTRACT) = 0;
  return 1;
}
