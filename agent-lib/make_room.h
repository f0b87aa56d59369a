/* SPDX-License-Identifier: Apache-2.0 */
/* The session makes room for a tracker that the program starts, in releases whose runtime would
 * refuse that. All calls under the runtime lock. */
#ifndef MEMPROF_MAKE_ROOM_H
#define MEMPROF_MAKE_ROOM_H

/* OCaml 4: before a session begins. */
void memprof_room_take_hooks(void);
/* OCaml 5, in a session: patches the slot once, if the watcher allows it. */
void memprof_room_take_slot(void);

#endif
