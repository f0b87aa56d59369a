/* SPDX-License-Identifier: Apache-2.0 */
/* Not every OCaml that this is compiled with has its headers. */
#include <stdint.h>

typedef intptr_t value;
extern value caml_callback(value closure, value argument);

value fibers_by_c(value f) { return caml_callback(f, 1); }
