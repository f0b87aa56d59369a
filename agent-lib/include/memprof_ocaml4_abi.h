/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Offsets in OCaml 4 runtimes that the agent is compiled for; bytes. Those of OCaml 5 are in
 * memprof_agent_abi.h. daemon/runtime/releases.cc checks that they suit each release that an agent
 * samples.
 */
#ifndef MEMPROF_OCAML4_ABI_H
#define MEMPROF_OCAML4_ABI_H

/* The domain state (Caml_state) from 4.11 to 4.14: eight bytes for each field, in the order of
 * runtime/caml/domain_state.tbl. */
enum memprof_ocaml4_place {
	MEMPROF_OCAML4_YOUNG_START = 32, /* null until the heap exists */
	MEMPROF_OCAML4_YOUNG_ALLOC_START = 48,
	MEMPROF_OCAML4_YOUNG_ALLOC_END = 56,
};

#endif
