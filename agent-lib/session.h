/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: sampling from one start to its stop, as the watcher requests them. */
#ifndef MEMPROF_SESSION_H
#define MEMPROF_SESSION_H

#include "buffers.h"

/* True if a session should run. The tracker's callbacks call this for each sample. */
static inline int memprof_session_wanted(void)
{
	return memprof_activity.watchers != 0 && memprof_agent_control.requested_rate > 0;
}

static inline int memprof_session_over(void)
{
	return !memprof_session_wanted() ||
	       memprof_agent_control.requested_generation != memprof_agent_control.generation;
}

/* True if a session is requested that does not run yet. A refused generation is not tried again. */
int memprof_session_due(void);
/* Starts a session that is due. Must be called where the runtime may run callbacks, in OCaml 4 also
 * at the end of a minor collection. */
void memprof_session_start_if_due(void);
/* OCaml 5, without a session: true if events of blocks of earlier sessions are to be reported,
 * because a requested session follows them. If false, the next session follows no earlier
 * blocks. */
int memprof_session_follows(void);
/* Ends the running session and starts the requested one. OCaml 4: must be called inside a tracker
 * callback; OCaml 5: also where the runtime may run callbacks. Returns 1 if the running session
 * continues, because a forked child has found a reader. */
int memprof_session_change(void);
/* Starts a session that is due, or changes one that is over, where OCaml 5 may run callbacks. */
void memprof_session_work(void);
/* OCaml 4, for make_room.c. The first ends the session for a tracker that the program starts, the
 * second reports that this tracker runs, the third that Memprof has been stopped. */
void memprof_session_makes_room(void);
void memprof_session_is_aside(void);
void memprof_session_memprof_stops(void);
/* Called at the end of a minor collection of this domain, in a session: the lease may have run out,
 * or the program may have stopped Memprof. */
void memprof_session_check(uint64_t now_ns);

#endif
