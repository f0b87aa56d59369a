/* SPDX-License-Identifier: Apache-2.0 */
/* OCaml values that are static data of the agent: outside of the heap and never moved. */
#ifndef MEMPROF_STATIC_VALUE_H
#define MEMPROF_STATIC_VALUE_H

#include "runtime_abi.h"

/* code: a stub that OCaml code can call. */
struct static_closure {
	uint64_t header;
	value (*code)(void);
	uint64_t info;
};

#define STATIC_CLOSURE(name, stub)                                                                 \
	extern value stub(void);                                                                   \
	static struct static_closure name = {STATIC_HEADER(2, CLOSURE_TAG), stub,                  \
					     CLOSURE_INFO_ARITY_1}
/* The value that refers to a static block, which begins with its header. */
#define VALUE_OF(block) ((value)((uint64_t *)&(block) + 1))

#endif
