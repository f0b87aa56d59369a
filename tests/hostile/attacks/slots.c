/* SPDX-License-Identifier: Apache-2.0 */
/* Files whose slots for malloc and similar functions differ from what the linker wrote. A program
 * with wrong results ends with code 98. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"

#define PAGE 4096ul

/* ---------------------------------------------------------------- a word of the program's own */

/* Words that the linker fills. */
static void (*volatile word)(void *) = free;

static void own_free(void *block) { (void)block; }

static void *write_word(void *linkers)
{
	for (;;) {
		word = (void (*)(void *))linkers;
		for (int i = 0; i < 20; i++)
			__asm__ volatile("pause");
		word = own_free;
		for (int i = 0; i < 100; i++)
			if (word != own_free)
				end_wrong("a word that the program has written is not what it was");
	}
	return NULL;
}

/* own-slot: the word holds the C library's function for a moment, then the program's own. */
static void own_slot(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	in_thread(write_word, (void *)word);
}

/* ---------------------------------------------------------------- rights of pages */

static int open_relro(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)bytes;
	(void)context;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		unsigned long begin = info->dlpi_addr + header->p_vaddr;

		if (header->p_type == PT_GNU_RELRO && begin > PAGE &&
		    mprotect((void *)(begin & -PAGE),
			     ((begin + header->p_memsz) & -PAGE) - (begin & -PAGE),
			     PROT_READ | PROT_WRITE) != 0)
			give_up("mprotect");
	}
	return 0;
}

/* Lies in a page that is otherwise read-only. */
static const struct {
	void (*function)(void *);
	long writes;
} constant = {free, 0};

static void *open_and_write(void *moment)
{
	wait_for(moment);
	dl_iterate_phdr(open_relro, NULL);
	for (;;) {
		(*(volatile long *)&constant.writes)++;
		usleep(50);
	}
	return NULL;
}

/* open-relro MOMENT: makes the linker's read-only pages writable, and writes to them. */
static void open_relro_at(int argc, char **argv)
{
	(void)argc;
	in_thread(open_and_write, argv[1]);
}

static int hide_first(struct dl_phdr_info *info, size_t bytes, void *path)
{
	(void)bytes;
	if (strcmp(info->dlpi_name, path) != 0)
		return 0;
	if (mprotect((void *)info->dlpi_addr, PAGE, PROT_NONE) != 0)
		give_up("mprotect");
	return 1;
}

/* hide-tables FILE: loads it and makes its symbols and relocations unreadable. */
static void hide_tables(int argc, char **argv)
{
	(void)argc;
	if (!dlopen(argv[1], RTLD_NOW) || !dl_iterate_phdr(hide_first, argv[1]))
		give_up(argv[1]);
}

struct file {
	const char *path;
	unsigned long begin, end;
};

static int note_place(struct dl_phdr_info *info, size_t bytes, void *context)
{
	struct file *file = context;

	(void)bytes;
	if (strcmp(info->dlpi_name, file->path) != 0)
		return 0;
	file->begin = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD)
			file->end = (file->begin + header->p_vaddr + header->p_memsz + PAGE - 1) &
				    -PAGE;
	}
	return 1;
}

/* unmap FILE: loads it and unmaps it without dlclose(). */
static void unmap(int argc, char **argv)
{
	struct file file = {.path = argv[1]};

	(void)argc;
	if (!dlopen(argv[1], RTLD_NOW) || !dl_iterate_phdr(note_place, &file) ||
	    munmap((void *)file.begin, file.end - file.begin) != 0)
		give_up(argv[1]);
}

/* Replaces the linker's list by one whose end lies in a page that never answers. */
static struct link_map list_of_two[2];

static void *end_in_page(void *page)
{
	wait_for("go");
	list_of_two[1].l_next = page;
	return NULL;
}

/* hang-linker PAGE: from "go" on, the list of loaded files ends in that page of a file. */
static void hang_linker(int argc, char **argv)
{
	static char no_name[] = "";
	int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	void *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);

	if (file < 0 || page == MAP_FAILED)
		give_up("hang-linker PAGE");
	list_of_two[0] = *_r_debug.r_map;
	list_of_two[0].l_next = &list_of_two[1];
	list_of_two[1].l_name = no_name;
	list_of_two[1].l_prev = &list_of_two[0];
	_r_debug.r_map = list_of_two;
	in_thread(end_in_page, page);
}

/* hang-slots FILE PAGE: loads FILE and maps the page of its slots from the file PAGE. */
static void hang_slots(int argc, char **argv)
{
	struct link_map *map = dlopen(argv[1], RTLD_LAZY);
	int fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	unsigned long at = 0;

	(void)argc;
	for (ElfW(Dyn) *entry = map ? map->l_ld : NULL; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_PLTGOT)
			at = entry->d_un.d_ptr;
	if (at == 0 || fd < 0 ||
	    mmap((void *)(at & -PAGE), PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
		 0) == MAP_FAILED)
		give_up(argv[2]);
}

/* ---------------------------------------------------------------- a false list */

/* lie-in-list FILE: loads it, and enters a wrong address in the linker's list. */
static void lie_in_list(int argc, char **argv)
{
	struct link_map *map = dlopen(argv[1], RTLD_NOW);

	(void)argc;
	if (!map)
		give_up(argv[1]);
	map->l_addr += 0x100000000ul;
}

/* ---------------------------------------------------------------- forks and the linker's lock */

static int keep_lock(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)info;
	(void)bytes;
	(void)context;
	usleep(20000);
	return 1;
}

static void *keep_locking(void *unused)
{
	for (;;)
		dl_iterate_phdr(keep_lock, NULL);
	return unused;
}

/* hold-linker: a thread holds the linker's lock nearly all the time. */
static void hold_linker(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	in_thread(keep_locking, NULL);
}

static int take_any(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)info;
	(void)bytes;
	(void)context;
	return 1;
}

/* A fork while OCaml threads end breaks the runtime's list of threads in the child, with or without
 * memprofd, so a test of such a program removes the file before. */
static void *fork_and_look(void *moment)
{
	int ends = strcmp(moment, "go") == 0;

	prctl(PR_SET_NAME, "fork-and-look");
	wait_for(moment);
	while (!ends || go_file_is_there()) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			alarm(60);
			dl_iterate_phdr(take_any, NULL);
			_exit(0);
		}
		if (child > 0 && waitpid(child, &status, 0) == child && status != 0) {
			char message[64];

			snprintf(message, sizeof message,
				 "a child that asks the linker ended with %#x", status);
			end_wrong(message);
		}
		usleep(100);
	}
	return moment;
}

/* fork-and-look MOMENT: forks children that read the linker's list, until the file of "go" is gone.
 */
static void fork_and_look_in_threads(int argc, char **argv)
{
	(void)argc;
	for (int i = 0; i < 4; i++)
		in_thread(fork_and_look, argv[1]);
}

const struct attack slot_attacks[] = {
	{"own-slot", own_slot},
	{"open-relro", open_relro_at},
	{"hide-tables", hide_tables},
	{"unmap", unmap},
	{"hang-linker", hang_linker},
	{"hang-slots", hang_slots},
	{"lie-in-list", lie_in_list},
	{"hold-linker", hold_linker},
	{"fork-and-look", fork_and_look_in_threads},
	{NULL, NULL},
};
