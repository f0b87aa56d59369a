/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots through which files of the program call malloc and related functions: words in their
 * data that the dynamic linker has filled (global offset tables, initialised pointers). May be used
 * only at the end of a minor collection, by one thread at a time.
 */
#ifndef MEMPROF_SLOTS_H
#define MEMPROF_SLOTS_H

#include <stdint.h>

#include "elf_object.h"

struct memprof_slots {
	uint32_t ours; /* slots that hold our functions */
	uint32_t left; /* slots that hold functions that are neither the C library's nor ours, or
			  are not writable */
};

/* Puts our functions into slots that hold those of the C library, also in files that were loaded
 * since. Returns 0, and does nothing, if these functions are unknown or this C library does not
 * permit it. */
int memprof_slots_patch(struct memprof_slots *found);
/* Restores the C library's functions in all slots that hold ours. */
int memprof_slots_restore(struct memprof_slots *found);
/* Called at each minor collection: true if files have been loaded or unloaded since
 * memprof_slots_patch(), or if it is time to retry what remained then. */
int memprof_slots_changed(void);

/* Replaces what one slot of a file holds, unless the program has meanwhile changed it. A page that
 * the linker has made read-only (RELRO) is writable only during this store. Returns 1 if done. */
int memprof_slot_set(const struct elf_object *object, void **slot, void *held, void *function);

#endif
