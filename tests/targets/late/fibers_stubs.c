/* SPDX-License-Identifier: Apache-2.0 */
/* Declared here, because not every OCaml that compiles this file has its headers. */
#include <stdint.h>

typedef intptr_t value;
extern value caml_callback(value closure, value argument);

value fibers_by_c(value f) { return caml_callback(f, 1); }
