/* SPDX-License-Identifier: Apache-2.0 */
/*
 * There is no list of patched slots. To restore the functions, all loaded files are inspected
 * again, so a file that was unloaded meanwhile cannot be touched. While a file is inspected, the
 * dynamic linker does not unload it, because dl_iterate_phdr holds its lock.
 *
 * The content of a slot decides:
 *
 *   the C library's function       patched, whatever the slot's kind
 *   code of the file itself        a call that is not bound yet: patched if the function that it
 *                                  would be bound to is certain; otherwise inspected again later
 *   ours                           counted
 *   anything else                  left: another allocator, or not relocated yet
 *
 * If the malloc is not the C library's, slots in its own file are left too: a malloc that is built
 * on its own memalign would count each block twice.
 *
 * A file that is being loaded is in the list before it is relocated. After that, the linker makes
 * the file's relocated data read-only (RELRO), and we make a page writable only while we patch it.
 * Opening a page earlier and closing it while the linker still writes would crash the program; so
 * would closing a page that the program itself has opened.
 */
#define _GNU_SOURCE
#include "slots.h"

#include <string.h>
#include <sys/mman.h>

#include "definers.h"
#include "elf_object.h"
#include "hooks.h"
#include "linker.h"
#include "own_memory.h"
#include "raw_syscall.h"

/* All files are inspected once more, because a call that was being bound at that moment overwrites
 * its slot. Slots that were left are retried less and less often. Unit: collections. */
#define MAX_PAUSE 4096u

static uint64_t seen_changes; /* files loaded and unloaded at the last inspection */
static uint32_t pause;	      /* until the next inspection; 0: none is due */
static uint32_t passed;	      /* of it */

struct inspection {
	int restore;
	int lazy;	  /* calls that are not bound yet can be bound to one malloc only */
	int first_of_cxx; /* the first malloc is in the first file with C++ operators */
	int one_prctl;	  /* there is only one prctl */
	int other_malloc; /* the first malloc is not the C library's */
	int ready;	  /* the linker has finished this file */
	int again;	  /* another inspection is needed: slots that were left will change */
	struct memprof_slots *found;
	uint64_t changes;
};

struct file {
	struct elf_object object;
	struct inspection *inspection;
	uintptr_t opened;   /* a page that is otherwise read-only */
	uintptr_t writable; /* a page that is writable anyway */
	int is_malloc;	    /* the file defines the other malloc */
	int bound_to_it;    /* it has a call bound to a standard function */
	int bound_to_other;
};

/* ------------------------------------------------------------------ what may be written */

static int in_relro(const struct elf_object *object, uintptr_t at, size_t bytes)
{
	return at >= object->relro_begin && at + bytes <= object->relro_end;
}

/* True if the linker has finished the file, as far as can be detected: the last entry of its
 * dynamic section is then read-only. */
static int is_relocated(const struct elf_object *object)
{
	uintptr_t end = (uintptr_t)&object->dynamic[object->n_dynamic];

	if (object->relro_begin >= object->relro_end)
		return 1;
	return in_relro(object, end, sizeof(ElfW(Dyn))) && !memprof_is_writable(end);
}

static int protect(uintptr_t page, int protection)
{
	return raw_syscall(SYS_mprotect, (long)page, (long)MEMPROF_PAGE, protection, 0, 0, 0) == 0;
}

static void close_page(struct file *file)
{
	if (file->opened != 0)
		protect(file->opened, PROT_READ);
	file->opened = 0;
}

/* A page that the program has made writable stays writable. */
static int may_write(struct file *file, uintptr_t slot)
{
	uintptr_t page = memprof_page_of(slot);

	if (page == file->opened || page == file->writable)
		return 1;
	close_page(file);
	if (memprof_is_writable(slot)) {
		file->writable = page;
		return 1;
	}
	if (in_relro(&file->object, slot, sizeof(void *)) && protect(page, PROT_READ | PROT_WRITE))
		file->opened = page;
	return page == file->opened;
}

/* ------------------------------------------------------------------ slots */

static int function_named(const char *name)
{
	int i;

	if (name[0] == '_' && (name[1] != 'Z' || (name[2] != 'n' && name[2] != 'd')))
		return -1; /* most of C++ */
	for (i = 0; i < MEMPROF_C_FUNCTIONS; i++)
		if (name[0] == memprof_c_names[i][0] && strcmp(name, memprof_c_names[i]) == 0)
			return i;
	return -1;
}

/* Returns the function that a slot is for; -1 if we do not follow it. */
static int function_of(struct elf_object *object, const ElfW(Rela) * relocation)
{
	uint32_t type = ELF64_R_TYPE(relocation->r_info);
	const ElfW(Sym) * symbol;

	if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT &&
	    !(type == R_X86_64_64 && relocation->r_addend == 0))
		return -1;
	symbol = elf_object_symbol(object, relocation);
	return symbol ? function_named(elf_object_name(object, symbol)) : -1;
}

/* False for a call that is bound to the file's own function. */
static int is_unbound(struct file *file, const ElfW(Rela) * relocation, void *held, int which)
{
	return ELF64_R_TYPE(relocation->r_info) == R_X86_64_JUMP_SLOT &&
	       elf_object_has(&file->object, (uintptr_t)held, 1, PF_X) &&
	       elf_object_function(&file->object, memprof_c_names[which]) != (uintptr_t)held;
}

/* The target of a call that is not bound yet is certain if there is only one malloc, or if another
 * call of this file is bound to the first one, which the linker therefore found before others. */
static int is_certain(const struct file *file, int which)
{
	if (which == MEMPROF_C_PRCTL)
		return file->inspection->one_prctl;
	return file->inspection->lazy ||
	       (file->bound_to_it && !file->bound_to_other &&
		(which < MEMPROF_C_STANDARD || file->inspection->first_of_cxx));
}

/* Keeps a value that the program has meanwhile written itself. */
static int put(struct file *file, void **slot, void *held, void *function)
{
	return may_write(file, (uintptr_t)slot) &&
	       __atomic_compare_exchange_n(slot, &held, function, 0, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

int memprof_slot_set(const struct elf_object *object, void **slot, void *held, void *function)
{
	struct file file = {.object = *object};
	int done = put(&file, slot, held, function);

	close_page(&file);
	return done;
}

static void restore_slot(struct file *file, void **slot, int which)
{
	if (!put(file, slot, memprof_c_hooks[which], memprof_c_real[which]) &&
	    __atomic_load_n(slot, __ATOMIC_RELAXED) == memprof_c_hooks[which])
		file->inspection->found->ours++;
}

static void patch_slot(struct file *file, const ElfW(Rela) * relocation, void **slot, int which)
{
	void *held = __atomic_load_n(slot, __ATOMIC_RELAXED);
	int unbound = held != memprof_c_real[which] && is_unbound(file, relocation, held, which);

	if (held == memprof_c_hooks[which] ||
	    ((held == memprof_c_real[which] || (unbound && is_certain(file, which))) &&
	     file->inspection->ready && put(file, slot, held, memprof_c_hooks[which]))) {
		file->inspection->found->ours++;
		return;
	}
	/* Operators of C++ that are built on malloc are followed in malloc. */
	if (which != MEMPROF_C_PRCTL)
		file->inspection->found->left += which < MEMPROF_C_STANDARD || unbound;
	file->inspection->again |= unbound || !file->inspection->ready;
}

/* Null: the slot cannot be one of ours. */
static void **slot_of(struct file *file, const ElfW(Rela) * relocation, int which)
{
	void **slot = (void **)(file->object.base + relocation->r_offset);

	if (which < 0 || !memprof_c_real[which] || ((uintptr_t)slot & 7) != 0 ||
	    (file->is_malloc && memprof_c_takes(which)) ||
	    !elf_object_has(&file->object, (uintptr_t)slot, sizeof(*slot), PF_W) ||
	    !memprof_is_readable((uintptr_t)slot, sizeof(*slot)))
		return NULL;
	return slot;
}

static void note_binding(struct file *file, const ElfW(Rela) * relocation, void **slot, int which)
{
	void *held = __atomic_load_n(slot, __ATOMIC_RELAXED);

	if (which >= MEMPROF_C_STANDARD || ELF64_R_TYPE(relocation->r_info) == R_X86_64_64)
		return;
	if (held == memprof_c_real[which] || held == memprof_c_hooks[which])
		file->bound_to_it = 1;
	else if (!is_unbound(file, relocation, held, which))
		file->bound_to_other = 1;
}

static void inspect_slot(struct file *file, const ElfW(Rela) * relocation, void **slot, int which)
{
	if (!file->inspection->restore)
		patch_slot(file, relocation, slot, which);
	else if (__atomic_load_n(slot, __ATOMIC_RELAXED) == memprof_c_hooks[which])
		restore_slot(file, slot, which);
}

/* Returns the number of slots. */
static size_t each_slot(struct file *file, const struct elf_relocations *relocations,
			void (*take)(struct file *, const ElfW(Rela) *, void **, int))
{
	size_t i, n = 0;

	for (i = 0; i < relocations->count; i++) {
		int which = function_of(&file->object, &relocations->first[i]);
		void **slot = slot_of(file, &relocations->first[i], which);

		if (slot)
			take(file, &relocations->first[i], slot, which);
		n += slot != NULL;
	}
	return n;
}

static int inspect_file(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct file file = {.inspection = data};

	(void)bytes;
	file.inspection->changes = info->dlpi_adds + info->dlpi_subs;
	if (!elf_object_read(&file.object, info) || elf_object_is_linker(&file.object))
		return 0;
	file.is_malloc =
		file.inspection->other_malloc &&
		elf_object_has(&file.object, (uintptr_t)memprof_c_real[MEMPROF_C_MALLOC], 1, PF_X);
	if (each_slot(&file, &file.object.data, note_binding) +
		    each_slot(&file, &file.object.calls, note_binding) ==
	    0)
		return 0;
	file.inspection->ready = is_relocated(&file.object);
	each_slot(&file, &file.object.data, inspect_slot);
	each_slot(&file, &file.object.calls, inspect_slot);
	close_page(&file);
	return 0;
}

/* ------------------------------------------------------------------ all files */

#ifdef __GLIBC__
#define THIS_C_LIBRARY 1
#else
#define THIS_C_LIBRARY 0
#endif

static void plan_next_inspection(const struct inspection *inspection)
{
	if (inspection->changes != seen_changes)
		pause = 1;
	else if (!inspection->again)
		pause = 0;
	else if (pause < MAX_PAUSE)
		pause = pause == 0 ? 1 : pause * 2;
	passed = 0;
	seen_changes = inspection->changes;
}

int memprof_slots_patch(struct memprof_slots *found)
{
	struct memprof_definers definers;
	struct inspection inspection = {.found = found};

	*found = (struct memprof_slots){0};
	if (!THIS_C_LIBRARY || !memprof_find_definers(&definers))
		return 0;
	inspection.lazy = definers.count == 1;
	inspection.first_of_cxx = definers.first_of_cxx;
	inspection.one_prctl = definers.of_prctl == 1;
	inspection.other_malloc = !definers.first_is_libc;
	memprof_linker_each_file(inspect_file, &inspection);
	plan_next_inspection(&inspection);
	return 1;
}

int memprof_slots_restore(struct memprof_slots *found)
{
	struct inspection inspection = {.restore = 1, .found = found};

	*found = (struct memprof_slots){0};
	return memprof_linker_each_file(inspect_file, &inspection);
}

static int note_changes(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)bytes;
	*(uint64_t *)data = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

int memprof_slots_changed(void)
{
	uint64_t changes = seen_changes;

	memprof_linker_each_file(note_changes, &changes);
	return changes != seen_changes || (pause != 0 && ++passed >= pause);
}
