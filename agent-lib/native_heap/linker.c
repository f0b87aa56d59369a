/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dynamic linker's lock. dl_iterate_phdr holds it while it calls us, and fork() does not wait
 * for its holder. In the child, a thread that does not exist there may therefore hold it forever,
 * and every thread that needs it hangs. The lock has no symbol, so we search for its shape: a
 * recursive mutex in the linker's data that this thread holds while we are called, and not
 * afterwards. The child reads it before any other thread can take it.
 */
#define _GNU_SOURCE
#include "linker.h"

#include <gnu/libc-version.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>

#include "elf_object.h"
#include "own_memory.h"
#include "raw_syscall.h"

/* Limits the distance from a function of a file to its beginning. */
#define MAX_PAGES 8192
/* Recursive mutexes that this thread holds. */
#define MAX_LOCKS 4

typedef int iterate_function(memprof_each_file *take, void *data);

/* The words of a mutex of the C library. */
struct lock {
	uint32_t word; /* 0: free */
	uint32_t count;
	uint32_t owner;
	uint32_t users;
	uint32_t kind;
};

static const volatile struct lock *linkers; /* null: unknown */
static int locked_for_ever;
int memprof_linker_has_been_looked_at;
static iterate_function *iterate; /* null: unknown */

/* ------------------------------------------------------------------ the lock */

struct search {
	uint32_t thread;
	unsigned n;
	const volatile struct lock *locks[MAX_LOCKS];
	uint32_t counts[MAX_LOCKS];
};

static int is_held(const volatile struct lock *lock, uint32_t thread)
{
	return lock->word != 0 && lock->count != 0 && lock->owner == thread &&
	       lock->kind == PTHREAD_MUTEX_RECURSIVE;
}

static void search_segment(struct search *search, uintptr_t begin, size_t bytes)
{
	uintptr_t at = (begin + 7) & -8;

	if (!memprof_is_readable(begin, bytes))
		return;
	for (; at + sizeof(struct lock) <= begin + bytes && search->n < MAX_LOCKS; at += 8) {
		const volatile struct lock *lock = (const volatile struct lock *)at;

		if (!is_held(lock, search->thread))
			continue;
		search->locks[search->n] = lock;
		search->counts[search->n++] = lock->count;
	}
}

static int search_linker(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct elf_object object;
	unsigned i;

	(void)bytes;
	if (!elf_object_read(&object, info) || !elf_object_is_linker(&object))
		return 0;
	for (i = 0; i < object.n_headers; i++)
		if (object.headers[i].p_type == PT_LOAD && (object.headers[i].p_flags & PF_W) != 0)
			search_segment(data, object.base + object.headers[i].p_vaddr,
				       object.headers[i].p_memsz);
	return 1;
}

/* Finds, among the mutexes that this thread held, the one that it has released since. */
static void find_lock(void)
{
	struct search search = {.thread = (uint32_t)raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0)};
	const volatile struct lock *found = NULL;
	unsigned i, n = 0;

	iterate(search_linker, &search);
	for (i = 0; i < search.n; i++) {
		if (is_held(search.locks[i], search.thread) &&
		    search.locks[i]->count == search.counts[i])
			continue;
		found = search.locks[i];
		n++;
	}
	if (n == 1)
		linkers = found;
}

void memprof_linker_forked(void)
{
	memprof_linker_has_been_looked_at = 1;
	locked_for_ever |= !linkers || linkers->word != 0;
}

int memprof_linker_is_locked(void) { return locked_for_ever; }

/* ------------------------------------------------------------------ a file */

static int has_headers(const struct dl_phdr_info *info)
{
	return memprof_is_readable((uintptr_t)info->dlpi_phdr,
				   info->dlpi_phnum * sizeof(*info->dlpi_phdr));
}

static const ElfW(Phdr) * segment_at(uintptr_t at, const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD &&
		    at - info->dlpi_addr - header->p_vaddr < header->p_memsz)
			return header;
	}
	return NULL;
}

/* Finds the program itself, where the kernel has put it. */
static int find_program(struct dl_phdr_info *info)
{
	info->dlpi_addr = 0;
	info->dlpi_phdr = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	info->dlpi_phnum = (ElfW(Half))getauxval(AT_PHNUM);
	if (!has_headers(info))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_PHDR)
			info->dlpi_addr = (uintptr_t)info->dlpi_phdr - info->dlpi_phdr[i].p_vaddr;
	return 1;
}

/* Finds the file whose beginning is the nearest one below. */
static int find_library(uintptr_t function, struct dl_phdr_info *info)
{
	uintptr_t page = memprof_page_of(function);
	const ElfW(Ehdr) *header = NULL;

	for (int i = 0; i < MAX_PAGES; i++, page -= MEMPROF_PAGE) {
		header = (const ElfW(Ehdr) *)page;
		if (!memprof_is_readable(page, sizeof(*header)))
			return 0;
		if (memcmp(header->e_ident, ELFMAG, SELFMAG) == 0)
			break;
	}
	info->dlpi_addr = page;
	info->dlpi_phdr = (const ElfW(Phdr) *)(page + header->e_phoff);
	info->dlpi_phnum = header->e_phnum;
	return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
	       header->e_phentsize == sizeof(ElfW(Phdr)) && has_headers(info);
}

const ElfW(Phdr) * memprof_segment_of(uintptr_t function, struct dl_phdr_info *file)
{
	const ElfW(Phdr) *found = find_program(file) ? segment_at(function, file) : NULL;

	if (!found && find_library(function, file))
		found = segment_at(function, file);
	return found;
}

/* ------------------------------------------------------------------ its function */

/* Takes no lock of the dynamic linker, because this thread may have to wait for it. */
static iterate_function *find_function(void)
{
	struct dl_phdr_info info = {.dlpi_addr = 0};
	struct elf_object libc;
	uintptr_t function;

	if (!memprof_segment_of((uintptr_t)&gnu_get_libc_version, &info) ||
	    !elf_object_read(&libc, &info))
		return NULL;
	function = elf_object_function(&libc, "dl_iterate_phdr");
	return function == ELF_OBJECT_UNKNOWN_FUNCTION ? NULL : (iterate_function *)function;
}

void memprof_linker_look(void)
{
	if (memprof_linker_has_been_looked_at)
		return;
	iterate = find_function();
	if (iterate)
		find_lock();
	memprof_linker_has_been_looked_at = 1;
}

int memprof_linker_each_file(memprof_each_file *take, void *data)
{
	memprof_linker_look();
	if (locked_for_ever || !iterate)
		return 0;
	iterate(take, data);
	return 1;
}
