/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "linker.h"

#include <gnu/libc-version.h>
#include <string.h>

#include "elf_object.h"
#include "own_memory.h"

/* From a function of a file to its beginning. */
#define MAX_PAGES 8192

typedef int iterate_function(memprof_each_file *take, void *data);

/* Where the file begins that has this function, 0: not known. */
static uintptr_t file_of(uintptr_t function)
{
	uintptr_t page = memprof_page_of(function);
	int i;

	for (i = 0; i < MAX_PAGES && memprof_is_readable(page, SELFMAG); i++, page -= MEMPROF_PAGE)
		if (memcmp((const void *)page, ELFMAG, SELFMAG) == 0)
			return page;
	return 0;
}

/* It asks no lock of the dynamic linker, which this thread may have to wait for. */
static iterate_function *find_function(void)
{
	uintptr_t begin = file_of((uintptr_t)&gnu_get_libc_version), function;
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)begin;
	struct dl_phdr_info info = {.dlpi_addr = begin};
	struct elf_object libc;

	if (begin == 0 || header->e_phentsize != sizeof(ElfW(Phdr)))
		return NULL;
	info.dlpi_phdr = (const ElfW(Phdr) *)(begin + header->e_phoff);
	info.dlpi_phnum = header->e_phnum;
	if (!elf_object_read(&libc, &info))
		return NULL;
	function = elf_object_function(&libc, "dl_iterate_phdr");
	return function == ELF_OBJECT_UNKNOWN_FUNCTION ? NULL : (iterate_function *)function;
}

int memprof_linker_each_file(memprof_each_file *take, void *data)
{
	static iterate_function *iterate;

	if (!iterate)
		iterate = find_function();
	if (!iterate)
		return 0;
	iterate(take, data);
	return 1;
}
