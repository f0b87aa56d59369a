/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a session is to run, as the tracker's callbacks ask it for each sample. */
#ifndef MEMPROF_SESSION_H
#define MEMPROF_SESSION_H

#include "batch.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

static inline int memprof_session_wanted(void)
{
	return memprof_activity.watchers != 0 && memprof_agent_control.requested_rate > 0;
}

static inline int memprof_session_over(void)
{
	return !memprof_session_wanted() ||
	       memprof_agent_control.requested_generation != memprof_agent_control.generation;
}

/* Ends the session that runs and starts the one that is wanted. Only inside a tracker
 * callback. */
void memprof_session_change(void);

#endif
