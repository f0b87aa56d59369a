/* SPDX-License-Identifier: Apache-2.0 */
/* The Gc.Memprof tracker: five callbacks that append records. */
#ifndef MEMPROF_TRACKER_H
#define MEMPROF_TRACKER_H

#include "runtime_abi.h"

/* Called once, when the agent is loaded. Returns the tracker for caml_memprof_start. */
value memprof_tracker_load(void);
/* Identifies a profile of OCaml 5 as ours. */
value memprof_tracker_alloc_minor(void);

#endif
