/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The event of a followed fork, beside those of events.h: a child of the target, or a
 * child of a child that has not called exec.
 */
#ifndef MEMPROF_FORK_EVENT_H
#define MEMPROF_FORK_EVENT_H

#include "events.h"

#define MEMPROF_EVENT_FORK 4u /* beside enum memprof_event_kind */

struct memprof_fork {
	struct memprof_event_header header;
	__u32 child; /* its pid in the initial pid namespace */
	__u32 reserved;
};
MEMPROF_ASSERT_SIZE(struct memprof_fork, 32);

/* Processes forked by the target that live and have not called exec. */
#define MEMPROF_MAX_CHILDREN 1024u

#endif
