/* SPDX-License-Identifier: Apache-2.0 */
/* OCaml 5.3 and 5.4: a domain's session makes room for a tracker that the program starts. */
#ifndef MEMPROF_MAKE_ROOM5_H
#define MEMPROF_MAKE_ROOM5_H

/* Patches the slot once, in a session, if the watcher allows it and another thread does not change
 * slots. Under the runtime lock. */
void memprof_room_take_slot(void);

#endif
