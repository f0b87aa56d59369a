/* SPDX-License-Identifier: Apache-2.0 */
/* The Gc.Memprof tracker: five callbacks that turn what they are told into records. */
#ifndef MEMPROF_TRACKER_H
#define MEMPROF_TRACKER_H

#include "runtime_abi.h"

/* Once, when the agent is loaded: the tracker, for caml_memprof_start. */
value memprof_tracker_load(void);
/* Identifies a profile of OCaml 5 as ours. */
value memprof_tracker_alloc_minor(void);

#endif
