/* SPDX-License-Identifier: Apache-2.0 */
/* OCaml values in slots, for all stubs of module Memprof_values. */
#ifndef MEMPROF_VALUES_OCAML_SLOTS_H
#define MEMPROF_VALUES_OCAML_SLOTS_H

#include <caml/memory.h>
#include <caml/mlvalues.h>

#include "registry.h"

static inline struct memprof_text text_of(value text)
{
	return (struct memprof_text){String_val(text), caml_string_length(text)};
}

/* Sets the root of a slot that holds another root or none. */
static inline void keep_root(struct memprof_slot *slot, int is_root, value root)
{
	if (is_root) {
		caml_modify_generational_global_root((value *)&slot->root, root);
		return;
	}
	slot->root = (__u64)root;
	caml_register_generational_global_root((value *)&slot->root);
}

#endif
