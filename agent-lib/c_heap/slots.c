/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No list of slots is kept: to put the functions back, all files that are loaded then are looked
 * at again, so that one which was unloaded meanwhile is none of them. While this looks at a file
 * the dynamic linker does not unload it: it holds the lock of dl_iterate_phdr.
 *
 * What a slot holds decides:
 *
 *   the C library's function       patched; of any kind
 *   code of the file itself        a call that is not bound yet: patched, if only one file of the
 *                                  program has a malloc, which it would be bound to
 *   ours                           counted
 *   anything else                  left: another allocator, or not relocated yet
 *
 * A file that is being loaded is in the list before it is relocated. Once it is, the linker makes
 * its relocated data read-only (RELRO): from then on that is opened for a moment here. To open
 * it before, and close it under the hands of the linker, would be the program's end.
 */
#define _GNU_SOURCE
#include "slots.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "elf_object.h"
#include "hooks.h"
#include "raw_syscall.h"

/* All files are looked at once again, since a call that is being bound in that moment overwrites
 * what was put into its slot; for one that is not ready so often. */
#define MAX_TRIES 1000

static uint64_t seen_changes; /* files loaded and unloaded when all were looked at last */
static uint32_t tries_left;

struct definers {
	unsigned count;				  /* files that have a malloc */
	uintptr_t functions[MEMPROF_C_FUNCTIONS]; /* of the first */
};

struct look {
	int restore;
	int lazy; /* whether it is known what calls that are not bound would be bound to */
	int not_ready;
	struct memprof_slots *found;
	uint64_t changes;
};

enum relro { RELRO_CLOSED, RELRO_OPEN, RELRO_REFUSED };

struct file {
	struct elf_object object;
	struct look *look;
	enum relro relro;
};

/* ------------------------------------------------------------------ whose functions */

static int is_dynamic_linker(const struct elf_object *object)
{
	return elf_object_function(object, "__tls_get_addr") != 0;
}

static int note_definer(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct definers *definers = data;
	struct elf_object object;
	int i;

	(void)bytes;
	if (!elf_object_read(&object, info) || elf_object_function(&object, "malloc") == 0 ||
	    is_dynamic_linker(&object) || definers->count++ != 0)
		return 0;
	for (i = 0; i < MEMPROF_C_FUNCTIONS; i++)
		definers->functions[i] = elf_object_function(&object, memprof_c_names[i]);
	return 0;
}

/* Once a slot leads to ours, they are what ours lead to, and stay so. */
static int take_functions(const struct definers *definers)
{
	int i;

	if (definers->count == 0)
		return 0;
	for (i = 0; i < MEMPROF_C_FUNCTIONS; i++)
		if (definers->functions[i] == ELF_OBJECT_UNKNOWN_FUNCTION)
			return 0;
	if (definers->functions[MEMPROF_C_FREE] == 0)
		return 0;
	if (!memprof_c_real[MEMPROF_C_MALLOC])
		for (i = 0; i < MEMPROF_C_FUNCTIONS; i++)
			memprof_c_real[i] = (void *)definers->functions[i];
	return memprof_c_real[MEMPROF_C_MALLOC] == (void *)definers->functions[MEMPROF_C_MALLOC];
}

/* ------------------------------------------------------------------ what may be written */

/* Asks the kernel to write where nobody reads, behind the end of the dynamic section. */
static int is_closed(const struct elf_object *object)
{
	ElfW(Dyn) *end = (ElfW(Dyn) *)&object->dynamic[object->n_dynamic];

	if (raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&end->d_un, 8, 0, 0) != 0)
		return 1;
	end->d_un.d_val = 0;
	return 0;
}

static int in_relro(const struct elf_object *object, uintptr_t at, size_t bytes)
{
	return at >= object->relro_begin && at + bytes <= object->relro_end;
}

/* Whether the linker has done with it, as far as one can see. */
static int is_relocated(const struct elf_object *object)
{
	uintptr_t end = (uintptr_t)&object->dynamic[object->n_dynamic];

	if (object->relro_begin >= object->relro_end)
		return 1;
	return in_relro(object, end, sizeof(ElfW(Dyn))) && is_closed(object);
}

static long protect_relro(const struct elf_object *object, int protection)
{
	return raw_syscall(SYS_mprotect, (long)object->relro_begin,
			   (long)(object->relro_end - object->relro_begin), protection, 0, 0, 0);
}

static int may_write(struct file *file, uintptr_t slot)
{
	if (!in_relro(&file->object, slot, sizeof(void *)))
		return elf_object_has(&file->object, slot, sizeof(void *), PF_W);
	if (file->relro == RELRO_CLOSED)
		file->relro = protect_relro(&file->object, PROT_READ | PROT_WRITE) == 0
				      ? RELRO_OPEN
				      : RELRO_REFUSED;
	return file->relro == RELRO_OPEN;
}

static void close_relro(const struct file *file)
{
	if (file->relro == RELRO_OPEN)
		protect_relro(&file->object, PROT_READ);
}

/* ------------------------------------------------------------------ slots */

static int function_named(const char *name)
{
	int i;

	for (i = 0; i < MEMPROF_C_FUNCTIONS; i++)
		if (name[0] == memprof_c_names[i][0] && strcmp(name, memprof_c_names[i]) == 0)
			return i;
	return -1;
}

/* The function a slot is for, -1: none of ours. */
static int function_of(const struct elf_object *object, const ElfW(Rela) * relocation)
{
	uint32_t type = ELF64_R_TYPE(relocation->r_info);
	const ElfW(Sym) * symbol;

	if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT &&
	    !(type == R_X86_64_64 && relocation->r_addend == 0))
		return -1;
	symbol = elf_object_symbol(object, relocation);
	return symbol ? function_named(elf_object_name(object, symbol)) : -1;
}

static int is_unbound(const struct file *file, const ElfW(Rela) * relocation, void *held)
{
	return file->look->lazy && ELF64_R_TYPE(relocation->r_info) == R_X86_64_JUMP_SLOT &&
	       elf_object_has(&file->object, (uintptr_t)held, 1, PF_X);
}

static int put(struct file *file, void **slot, void *function)
{
	if (!may_write(file, (uintptr_t)slot))
		return 0;
	__atomic_store_n(slot, function, __ATOMIC_RELEASE);
	return 1;
}

static void look_at_slot(struct file *file, const ElfW(Rela) * relocation, int which)
{
	struct memprof_slots *found = file->look->found;
	void **slot = (void **)(file->object.base + relocation->r_offset);
	void *real = memprof_c_real[which];
	void *held;

	if (!real || ((uintptr_t)slot & 7) != 0 ||
	    !elf_object_has(&file->object, (uintptr_t)slot, sizeof(*slot), PF_W))
		return;
	held = __atomic_load_n(slot, __ATOMIC_RELAXED);
	if (held == memprof_c_hooks[which]) {
		if (!file->look->restore || !put(file, slot, real))
			found->ours++;
	} else if (!file->look->restore) {
		if ((held == real || is_unbound(file, relocation, held)) &&
		    put(file, slot, memprof_c_hooks[which]))
			found->ours++;
		else
			found->left++;
	}
}

/* Nothing is written before something is to be. */
static void look_at_slots(struct file *file, const struct elf_relocations *relocations)
{
	size_t i;

	for (i = 0; i < relocations->count; i++) {
		int which = function_of(&file->object, &relocations->first[i]);

		if (which >= 0)
			look_at_slot(file, &relocations->first[i], which);
	}
}

static int has_slots(const struct elf_object *object, const struct elf_relocations *relocations)
{
	size_t i;

	for (i = 0; i < relocations->count; i++)
		if (function_of(object, &relocations->first[i]) >= 0)
			return 1;
	return 0;
}

static int look_at_file(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct file file = {.look = data};

	(void)bytes;
	file.look->changes = info->dlpi_adds + info->dlpi_subs;
	if (!elf_object_read(&file.object, info) || is_dynamic_linker(&file.object) ||
	    !(has_slots(&file.object, &file.object.data) ||
	      has_slots(&file.object, &file.object.calls)))
		return 0;
	if (!is_relocated(&file.object)) {
		file.look->not_ready = 1;
		return 0;
	}
	look_at_slots(&file, &file.object.data);
	look_at_slots(&file, &file.object.calls);
	close_relro(&file);
	return 0;
}

/* ------------------------------------------------------------------ all files */

#ifdef __GLIBC__
#define THIS_C_LIBRARY 1
#else
#define THIS_C_LIBRARY 0
#endif

int memprof_slots_patch(struct memprof_slots *found)
{
	struct definers definers = {0};
	struct look look = {.found = found};

	*found = (struct memprof_slots){0};
	if (!THIS_C_LIBRARY)
		return 0;
	dl_iterate_phdr(note_definer, &definers);
	if (!take_functions(&definers))
		return 0;
	look.lazy = definers.count == 1;
	dl_iterate_phdr(look_at_file, &look);
	if (look.changes != seen_changes)
		tries_left = MAX_TRIES;
	else if (tries_left > 0)
		tries_left = look.not_ready ? tries_left - 1 : 0;
	seen_changes = look.changes;
	return 1;
}

int memprof_slots_restore(struct memprof_slots *found)
{
	struct look look = {.restore = 1, .found = found};

	*found = (struct memprof_slots){0};
	dl_iterate_phdr(look_at_file, &look);
	return 1;
}

static int note_changes(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)bytes;
	*(uint64_t *)data = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

int memprof_slots_changed(void)
{
	uint64_t changes = 0;

	dl_iterate_phdr(note_changes, &changes);
	return changes != seen_changes || tries_left > 0;
}
