/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "definers.h"

#include "hooks.h"
#include "linker.h"

static int note_definer(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct memprof_definers *definers = data;
	struct elf_object object;
	uintptr_t prctl;
	int has_cxx, i;

	(void)bytes;
	if (!elf_object_read(&object, info) || elf_object_is_linker(&object))
		return 0;
	prctl = elf_object_function(&object, memprof_c_names[MEMPROF_C_PRCTL]);
	if (prctl != 0 && definers->of_prctl++ == 0)
		definers->functions[MEMPROF_C_PRCTL] = prctl;
	has_cxx = elf_object_function(&object, memprof_c_names[MEMPROF_C_NEW]) != 0;
	definers->of_cxx += has_cxx;
	if (elf_object_function(&object, memprof_c_names[MEMPROF_C_MALLOC]) == 0 ||
	    definers->count++ != 0)
		return 0;
	definers->first_of_cxx = has_cxx && definers->of_cxx == 1;
	definers->first_is_libc = elf_object_function(&object, "gnu_get_libc_version") != 0;
	for (i = 0; i < MEMPROF_C_PRCTL; i++)
		definers->functions[i] = elf_object_function(&object, memprof_c_names[i]);
	return 0;
}

static int is_known(const struct memprof_definers *definers, int from, int to)
{
	int i;

	for (i = from; i < to; i++)
		if (definers->functions[i] == ELF_OBJECT_UNKNOWN_FUNCTION)
			return 0;
	return 1;
}

/* Once a slot leads to our functions, the functions that these call stay the same. Functions beyond
 * the standard ones are followed all or not at all, because blocks that some allocate are freed by
 * others. */
static int take_functions(const struct memprof_definers *definers)
{
	int i, known = is_known(definers, MEMPROF_C_STANDARD, MEMPROF_C_PRCTL);

	if (definers->count == 0 || !is_known(definers, 0, MEMPROF_C_STANDARD) ||
	    definers->functions[MEMPROF_C_FREE] == 0)
		return 0;
	if (!memprof_c_real[MEMPROF_C_MALLOC]) {
		for (i = 0; i < (known ? MEMPROF_C_PRCTL : MEMPROF_C_STANDARD); i++)
			memprof_c_real[i] = (void *)definers->functions[i];
		if (is_known(definers, MEMPROF_C_PRCTL, MEMPROF_C_FUNCTIONS))
			memprof_c_real[MEMPROF_C_PRCTL] =
				(void *)definers->functions[MEMPROF_C_PRCTL];
	}
	return memprof_c_real[MEMPROF_C_MALLOC] == (void *)definers->functions[MEMPROF_C_MALLOC];
}

int memprof_find_definers(struct memprof_definers *found)
{
	*found = (struct memprof_definers){0};
	return memprof_linker_each_file(note_definer, found) && take_functions(found);
}
