/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of OCaml 5, where each domain samples by itself; see domains.c. */
#ifndef MEMPROF_DOMAINS_H
#define MEMPROF_DOMAINS_H

#include "runtime_abi.h"

/* Whether the program's runtime is OCaml 5. */
int memprof_has_domains(void);
/* Whether it has everything that sessions need, and the watcher has told the offsets. */
int memprof_domains_usable(void);

/* Where the runtime may run callbacks: whether a domain samples by itself; -1: the world
 * could not be stopped to look. */
int memprof_domains_in_use(void);
/* Likewise: all domains begin to sample soon, at the latest after their next minor
 * collection. first_callback tells our profiles from others. */
void memprof_domains_start(value first_callback);
/* Where the runtime may run callbacks, or in one: no domain samples when it returns. 0:
 * the world could not be stopped, and all go on. */
int memprof_domains_stop(void);
/* Where the runtime may run callbacks: clears the last session away, if that is possible
 * already, and tells. */
int memprof_domains_cleared(void);

/* At the end of a minor collection of this domain, in a session. */
void memprof_domains_note_heap(void);
void memprof_domains_remind(void);
/* Likewise: has memprof_domains_work() called, soon, where the
 * runtime may run callbacks. */
void memprof_domains_call_back(void);

/* Given by agent.c. Starts a profile in this domain; IS_EXCEPTION_RESULT when it has one. */
value memprof_start_profile(void);
/* Called now and then where the runtime may run callbacks. */
void memprof_domains_work(void);

#endif
