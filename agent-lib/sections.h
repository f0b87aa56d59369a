/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of OCaml 5: the world is stopped, and every domain does something. */
#ifndef MEMPROF_SECTIONS_H
#define MEMPROF_SECTIONS_H

#include "runtime_abi.h"

/* caml_try_run_on_all_domains fails while another section is being prepared. */
#define MEMPROF_SECTION_PATIENCE_NS 3000000000u

/* Has work done on every domain, on its own thread or, when that is in a blocking section,
 * on its backup thread. Nothing may be allocated in it. Called where the runtime may run
 * callbacks. 0: it was not possible, because the world was busy for long. */
int memprof_on_all_domains(void (*work)(domain_state *));

#endif
