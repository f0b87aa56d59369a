/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of OCaml 5: the world is stopped, and every domain runs a function. */
#ifndef MEMPROF_SECTIONS_H
#define MEMPROF_SECTIONS_H

#include "runtime_abi.h"

/* caml_try_run_on_all_domains fails while another section is being prepared. */
#define MEMPROF_SECTION_PATIENCE_NS 3000000000u

/* Runs work for every domain, on its own thread or, if that is in a blocking section, on its backup
 * thread. The function must not allocate. Must be called where the runtime may run callbacks.
 * Returns 0 if the world was busy for too long. */
int memprof_on_all_domains(void (*work)(domain_state *));

#endif
