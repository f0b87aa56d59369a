/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files of the program that define malloc and related functions, and which of them are
 * called. */
#ifndef MEMPROF_DEFINERS_H
#define MEMPROF_DEFINERS_H

#include "elf_object.h"
#include "hooks.h"

struct memprof_definers {
	unsigned count;				  /* files that have a malloc */
	unsigned of_cxx;			  /* files that have operators new and delete */
	unsigned of_prctl;			  /* files that have a prctl */
	int first_of_cxx;			  /* the first malloc is in the first such file */
	int first_is_libc;			  /* the first malloc is the C library's */
	uintptr_t functions[MEMPROF_C_FUNCTIONS]; /* of the first file with a malloc, prctl */
};

/* Sets memprof_c_real, once. Returns 0 if the functions are unknown, or differ from the earlier
 * ones. */
int memprof_find_definers(struct memprof_definers *found);

#endif
