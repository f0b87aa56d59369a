/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "elf_object.h"

#include <string.h>

#include "own_memory.h"

/* The longest name that is searched for. */
#define MAX_NAME 64u

enum { OF_SYMBOLS, OF_NAMES };

int elf_object_has(const struct elf_object *object, uintptr_t address, size_t bytes, unsigned flags)
{
	unsigned i;

	for (i = 0; i < object->n_headers; i++) {
		const ElfW(Phdr) *header = &object->headers[i];
		uintptr_t at = address - object->base - header->p_vaddr;

		if (header->p_type == PT_LOAD && (header->p_flags & flags) == flags &&
		    at <= header->p_memsz && bytes <= header->p_memsz - at)
			return 1;
	}
	return 0;
}

/* glibc converts addresses in the dynamic section to those of the process; other C libraries do
 * not. */
static const void *pointed_to(const struct elf_object *object, uintptr_t address, size_t bytes)
{
	if (address < object->base)
		address += object->base;
	return elf_object_has(object, address, bytes, PF_R) ? (const void *)address : NULL;
}

static const void *readable(const struct elf_object *object, uintptr_t address, size_t bytes)
{
	const void *found = pointed_to(object, address, bytes);

	return found && memprof_is_readable((uintptr_t)found, bytes) ? found : NULL;
}

/* Does the same for a few bytes, which are usually close to the previous ones. */
static int may_read(struct elf_object *object, int of, const void *at, size_t bytes)
{
	uintptr_t begin = (uintptr_t)at, page = memprof_page_of(begin + bytes - 1);

	if (page == object->readable[of] && page == memprof_page_of(begin))
		return 1;
	if (!elf_object_has(object, begin, bytes, PF_R) || !memprof_is_readable(begin, bytes))
		return 0;
	object->readable[of] = page;
	return 1;
}

static void read_headers(struct elf_object *object)
{
	unsigned i;

	for (i = 0; i < object->n_headers; i++) {
		const ElfW(Phdr) *header = &object->headers[i];
		uintptr_t begin = object->base + header->p_vaddr;

		if (header->p_type == PT_DYNAMIC) {
			object->dynamic = (const ElfW(Dyn) *)begin;
			object->n_dynamic = header->p_memsz / sizeof(ElfW(Dyn));
		} else if (header->p_type == PT_GNU_RELRO) {
			object->relro_begin = memprof_page_of(begin);
			object->relro_end = memprof_page_of(begin + header->p_memsz);
		}
	}
}

struct tables {
	uintptr_t symbols, names, hash, data, calls;
	size_t names_bytes, data_bytes, data_relative, calls_bytes;
	int rela_calls;
};

static void note_tag(struct tables *tables, const ElfW(Dyn) * entry)
{
	switch (entry->d_tag) {
	case DT_SYMTAB:
		tables->symbols = entry->d_un.d_ptr;
		break;
	case DT_STRTAB:
		tables->names = entry->d_un.d_ptr;
		break;
	case DT_STRSZ:
		tables->names_bytes = entry->d_un.d_val;
		break;
	case DT_GNU_HASH:
		tables->hash = entry->d_un.d_ptr;
		break;
	case DT_RELA:
		tables->data = entry->d_un.d_ptr;
		break;
	case DT_RELASZ:
		tables->data_bytes = entry->d_un.d_val;
		break;
	case DT_RELACOUNT:
		tables->data_relative = entry->d_un.d_val;
		break;
	case DT_JMPREL:
		tables->calls = entry->d_un.d_ptr;
		break;
	case DT_PLTRELSZ:
		tables->calls_bytes = entry->d_un.d_val;
		break;
	case DT_PLTREL:
		tables->rela_calls = entry->d_un.d_val == DT_RELA;
		break;
	default:
		break;
	}
}

static struct elf_relocations relocations(const struct elf_object *object, uintptr_t at,
					  size_t bytes, size_t skip)
{
	struct elf_relocations found = {0};
	size_t count = bytes / sizeof(ElfW(Rela));

	if (at == 0 || skip > count)
		return found;
	found.first = pointed_to(object, at, bytes);
	if (!found.first || !memprof_is_readable((uintptr_t)(found.first + skip),
						 (count - skip) * sizeof(ElfW(Rela))))
		return (struct elf_relocations){0};
	found.first += skip;
	found.count = count - skip;
	return found;
}

static int read_dynamic(struct elf_object *object)
{
	struct tables tables = {0};
	size_t i;

	if (!object->dynamic || (uintptr_t)object->dynamic < object->base ||
	    !readable(object, (uintptr_t)object->dynamic, object->n_dynamic * sizeof(ElfW(Dyn))))
		return 0;
	for (i = 0; i < object->n_dynamic && object->dynamic[i].d_tag != DT_NULL; i++)
		note_tag(&tables, &object->dynamic[i]);
	if (i == object->n_dynamic)
		return 0;
	object->n_dynamic = i; /* the last entry marks the end */
	object->symbols = pointed_to(object, tables.symbols, sizeof(ElfW(Sym)));
	object->names = pointed_to(object, tables.names, tables.names_bytes);
	object->names_bytes = tables.names_bytes;
	if (tables.hash != 0)
		object->gnu_hash = readable(object, tables.hash, 4 * sizeof(uint32_t));
	object->data = relocations(object, tables.data, tables.data_bytes, tables.data_relative);
	if (tables.rela_calls)
		object->calls = relocations(object, tables.calls, tables.calls_bytes, 0);
	return object->symbols && object->names && object->names_bytes != 0 &&
	       may_read(object, OF_NAMES, object->names + object->names_bytes - 1, 1) &&
	       object->names[object->names_bytes - 1] == '\0';
}

int elf_object_read(struct elf_object *object, const struct dl_phdr_info *info)
{
	*object = (struct elf_object){
		.base = info->dlpi_addr,
		.headers = info->dlpi_phdr,
		.n_headers = info->dlpi_phnum,
	};
	if (!memprof_is_readable((uintptr_t)object->headers,
				 object->n_headers * sizeof(object->headers[0])))
		return 0;
	read_headers(object);
	return read_dynamic(object);
}

static const ElfW(Sym) * symbol_at(struct elf_object *object, size_t index)
{
	const ElfW(Sym) *symbol = object->symbols + index;

	return may_read(object, OF_SYMBOLS, symbol, sizeof(*symbol)) ? symbol : NULL;
}

const ElfW(Sym) * elf_object_symbol(struct elf_object *object, const ElfW(Rela) * relocation)
{
	size_t index = ELF64_R_SYM(relocation->r_info);

	return index == 0 ? NULL : symbol_at(object, index);
}

const char *elf_object_name(struct elf_object *object, const ElfW(Sym) * symbol)
{
	size_t at = symbol->st_name, bytes;

	if (at >= object->names_bytes)
		return "";
	bytes = object->names_bytes - at < MAX_NAME ? object->names_bytes - at : MAX_NAME;
	return may_read(object, OF_NAMES, object->names + at, bytes) ? object->names + at : "";
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

static uintptr_t function_at(struct elf_object *object, size_t index, const char *name)
{
	const ElfW(Sym) *symbol = symbol_at(object, index);

	if (!symbol || symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 ||
	    strcmp(elf_object_name(object, symbol), name) != 0)
		return 0;
	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return ELF_OBJECT_UNKNOWN_FUNCTION;
	return object->base + symbol->st_value;
}

/* Reads the table of DT_GNU_HASH: buckets, first symbol, words and shift of a filter, the filter, a
 * symbol per bucket, then hashes of symbols, whose lowest bit ends a bucket. */
uintptr_t elf_object_function(struct elf_object *object, const char *name)
{
	const uint32_t *table = object->gnu_hash;
	uint32_t hash = hash_of(name), index;
	const uint32_t *buckets, *hashes;

	if (!table || table[0] == 0)
		return 0;
	buckets = table + 4 + 2 * (size_t)table[2];
	hashes = buckets + table[0];
	if (!may_read(object, OF_SYMBOLS, &buckets[hash % table[0]], sizeof(*buckets)))
		return 0;
	index = buckets[hash % table[0]];
	if (index < table[1])
		return 0;
	for (;; index++) {
		const uint32_t *at = hashes + (index - table[1]);
		uintptr_t function;

		if (!may_read(object, OF_SYMBOLS, at, sizeof(*at)))
			return 0;
		function = (*at | 1) == (hash | 1) ? function_at(object, index, name) : 0;
		if (function != 0 || (*at & 1) != 0)
			return function;
	}
}

int elf_object_is_linker(struct elf_object *object)
{
	return elf_object_function(object, "__tls_get_addr") != 0;
}
