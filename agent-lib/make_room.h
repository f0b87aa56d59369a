/* SPDX-License-Identifier: Apache-2.0 */
/* OCaml 4: the session makes room for a tracker that the program starts. All calls under the
 * runtime lock. */
#ifndef MEMPROF_MAKE_ROOM_H
#define MEMPROF_MAKE_ROOM_H

/* Called before a session begins. */
void memprof_room_take_hooks(void);

#endif
