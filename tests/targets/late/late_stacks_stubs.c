/* SPDX-License-Identifier: Apache-2.0 */
#define CAML_NAME_SPACE
#include <caml/memory.h>
#include <caml/mlvalues.h>

/* Blocks of one word in the major heap. */
value late_stacks_one_word(value count) {
  for (long i = 0; i < Long_val(count); i++) Field(caml_alloc_shr(1, Abstract_tag), 0) = 0;
  return Val_unit;
}
