/* SPDX-License-Identifier: Apache-2.0 */
/* A call of Gc.Memprof.start that the runtime is about to refuse, recognized by the local roots of
 * the runtime's C functions. Must be called on the thread that made the call. */
#ifndef MEMPROF_REFUSED_START_H
#define MEMPROF_REFUSED_START_H

#include "runtime_abi.h"

/* The text of the exception, in every release. */
#define MEMPROF_REFUSAL "Gc.Memprof.start: already started."

/* runtime/caml/memory.h */
struct local_roots {
	struct local_roots *next;
	intptr_t tables, items;
	value *table[5];
};

extern char caml_exn_Failure WEAK; /* its address is the exception */

/* True if these are the roots of a function with this many values, between the caller and end. */
int memprof_are_roots_of(const struct local_roots *roots, intptr_t values, uint64_t end);
/* True if the OCaml code that returns to pc has called caml_memprof_start through caml_c_call. */
int memprof_is_call_of_start(uint64_t pc);

#endif
