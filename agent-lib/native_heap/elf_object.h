/* SPDX-License-Identifier: Apache-2.0 */
/* A file that the dynamic linker has loaded: its symbols, its relocations, and which of its parts
 * may be written. */
#ifndef MEMPROF_ELF_OBJECT_H
#define MEMPROF_ELF_OBJECT_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>

struct elf_relocations {
	const ElfW(Rela) * first;
	size_t count;
};

struct elf_object {
	uintptr_t base;
	const ElfW(Phdr) * headers;
	unsigned n_headers;
	const ElfW(Dyn) * dynamic;
	size_t n_dynamic;
	const ElfW(Sym) * symbols;
	const char *names;
	size_t names_bytes;
	const uint32_t *gnu_hash;
	struct elf_relocations data; /* without the leading ones that have no symbol */
	struct elf_relocations calls;
	uintptr_t relro_begin; /* read-only once it is relocated, in whole pages */
	uintptr_t relro_end;
	uintptr_t readable[2]; /* last pages found to be readable, for symbols and for names */
};

/* Returns 0 for a file that does not have the form of this machine's files; such a file is ignored.
 * If it succeeds, all pointers lead into the file's own segments and can be read. This must be
 * checked, because the list may contain a file that is gone, and a program may have unmapped parts
 * of its files. */
int elf_object_read(struct elf_object *object, const struct dl_phdr_info *info);
/* True if the whole range lies in one segment with these permissions (PF_R, PF_W, PF_X). */
int elf_object_has(const struct elf_object *object, uintptr_t address, size_t bytes,
		   unsigned flags);
/* The function exists, but the file chooses it at run time. */
#define ELF_OBJECT_UNKNOWN_FUNCTION UINTPTR_MAX
/* Returns the file's own function of that name, or 0. */
uintptr_t elf_object_function(struct elf_object *object, const char *name);
/* True for the dynamic linker. */
int elf_object_is_linker(struct elf_object *object);
/* Returns the symbol of a relocation, or null. */
const ElfW(Sym) * elf_object_symbol(struct elf_object *object, const ElfW(Rela) * relocation);
/* Returns the symbol's name; empty if it has none. */
const char *elf_object_name(struct elf_object *object, const ElfW(Sym) * symbol);

#endif
