/* SPDX-License-Identifier: Apache-2.0 */
/* Collector pauses, counted in the control block while a session runs. */
#ifndef MEMPROF_PAUSES_H
#define MEMPROF_PAUSES_H

#include <stdint.h>

/* Sets and removes the three hooks that only a session needs. */
void memprof_pauses_begin(void);
void memprof_pauses_end(void);
/* Called at the end of each minor collection of a session. */
void memprof_minor_pause_ended(uint64_t now_ns);

#endif
