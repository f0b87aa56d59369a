/* SPDX-License-Identifier: Apache-2.0 */
/* The dynamic linker's list of the files of the program. */
#ifndef MEMPROF_LINKER_H
#define MEMPROF_LINKER_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>

struct dl_phdr_info;
typedef int memprof_each_file(struct dl_phdr_info *info, size_t bytes, void *data);

/* Calls the C library's own dl_iterate_phdr, even if the program has a function of that name: one
 * that caches the list would report files that are gone. Returns 0 if it was called. */
int memprof_linker_each_file(memprof_each_file *take, void *data);
/* Collects the facts about the dynamic linker, once. Holds its lock for a moment, so every thread
 * that forks meanwhile must wait for that lock. */
void memprof_linker_look(void);
extern int memprof_linker_has_been_looked_at;
/* Finds the segment that has this function, and its file, without calling the linker or taking its
 * lock; null: not found. */
const ElfW(Phdr) * memprof_segment_of(uintptr_t function, struct dl_phdr_info *file);
/* Called first in a forked child: the linker is not used any more if a thread that does not exist
 * in the child may have left it locked. */
void memprof_linker_forked(void);
int memprof_linker_is_locked(void);

#endif
