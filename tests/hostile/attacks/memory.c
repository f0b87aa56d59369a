/* SPDX-License-Identifier: Apache-2.0 */
/* Address spaces that are slow to inspect, or change during an inspection. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hostile.h"

#define PAGE 4096ul

/* mappings N: N mappings of one page; rights alternate, so that the kernel does not merge them. */
static void mappings(int argc, char **argv)
{
	size_t n = (size_t)atol(argv[1]);
	char *room =
		mmap(NULL, n * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)argc;
	if (room == MAP_FAILED)
		give_up("mmap");
	for (size_t i = 0; i < n; i += 2)
		if (mprotect(room + i * PAGE, PAGE, PROT_READ) != 0)
			give_up("mprotect");
}

/* Maps the file's first page as code at the address; 0: anywhere. */
static void map_at(const char *path, unsigned long address)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		give_up(path);
	if (mmap((void *)address, PAGE, PROT_READ | PROT_EXEC,
		 MAP_PRIVATE | (address ? MAP_FIXED_NOREPLACE : 0), fd, 0) == MAP_FAILED)
		give_up("mmap");
	close(fd);
}

/* map-file FILE N [ADDRESS]: maps it N times, the first time at ADDRESS. */
static void map_file(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[2]) : 1;

	for (long i = 0; i < n; i++)
		map_at(argv[1], i == 0 && argc > 3 ? strtoul(argv[3], NULL, 0) : 0);
}

/* map-all FOLDER [ADDRESS STEP]: maps each of its files 0, 1, ... once. */
static void map_all(int argc, char **argv)
{
	unsigned long address = argc > 3 ? strtoul(argv[2], NULL, 0) : 0;
	unsigned long step = argc > 3 ? strtoul(argv[3], NULL, 0) : 0;
	char path[4096];

	for (unsigned long i = 0;; i++) {
		snprintf(path, sizeof(path), "%s/%lu", argv[1], i);
		if (access(path, F_OK) != 0)
			return;
		map_at(path, address + i * step);
	}
}

/* frame-table ADDRESS N: N descriptors of 16 bytes at ADDRESS, without code. */
static void frame_table(int argc, char **argv)
{
	unsigned long address = strtoul(argv[1], NULL, 0), n = strtoul(argv[2], NULL, 0);
	unsigned long *word = mmap((void *)address, 8 + 16 * n, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	(void)argc;
	if (word == MAP_FAILED)
		give_up("mmap");
	*word++ = n;
	for (unsigned long i = 0; i < n; i++) {
		*word++ = address + 16 * i;
		*word++ = 16; /* the frame's size; it has no live values */
	}
}

/* Maps and unmaps code without end, so that each list of mappings is outdated at once. */
static void *map_and_unmap(void *path)
{
	for (;;) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		void *page = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		close(fd);
		if (page == MAP_FAILED)
			give_up("mmap");
		munmap(page, PAGE);
	}
	return NULL;
}

/* churn-mappings FILE */
static void churn_mappings(int argc, char **argv)
{
	(void)argc;
	in_thread(map_and_unmap, argv[1]);
}

/* ---------------------------------------------------------------- the main thread's stack */

static char *stack_pointer;
static char *moment_of_stack;

static int below_the_stack(const struct mapping *mapping, void *context)
{
	char *end = context;

	if (strcmp(mapping->path, "[stack]") != 0)
		return 0;
	/* Keeps the used part of the stack writable, and protects all below. */
	mprotect((char *)mapping->begin, (size_t)(end - (char *)mapping->begin), PROT_READ);
	return 1;
}

static void *protect_stack(void *context)
{
	char *end = (char *)((unsigned long)stack_pointer & ~(PAGE - 1)) - 16 * PAGE;

	(void)context;
	wait_for(moment_of_stack);
	each_mapping(below_the_stack, end);
	return NULL;
}

/* protect-stack MOMENT: makes the unused part of the main thread's stack read-only. */
static void protect_stack_at(int argc, char **argv)
{
	char here;

	(void)argc;
	stack_pointer = &here;
	moment_of_stack = argv[1];
	in_thread(protect_stack, NULL);
}

/* ---------------------------------------------------------------- limits */

static const struct {
	const char *name;
	int resource;
} limits[] = {
	{"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC}, {"as", RLIMIT_AS},
	{"fsize", RLIMIT_FSIZE},   {"stack", RLIMIT_STACK}, {"memlock", RLIMIT_MEMLOCK},
	{"data", RLIMIT_DATA},
};

/* limit NAME VALUE MOMENT: sets a limit; "as now" and "data now" set it to the current use. */
static char **limit_words;

static rlim_t in_use(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%lu", &pages) != 1)
		give_up("/proc/self/statm");
	fclose(file);
	return pages * PAGE;
}

static void *set_limit(void *context)
{
	struct rlimit limit;

	(void)context;
	wait_for(limit_words[3]);
	limit.rlim_cur =
		strcmp(limit_words[2], "now") == 0 ? in_use() : (rlim_t)atol(limit_words[2]);
	limit.rlim_max = limit.rlim_cur;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (strcmp(limits[i].name, limit_words[1]) == 0 &&
		    setrlimit(limits[i].resource, &limit) != 0)
			give_up("setrlimit");
	return NULL;
}

static void limit(int argc, char **argv)
{
	(void)argc;
	limit_words = argv;
	if (strcmp(argv[3], "at-once") == 0)
		set_limit(NULL);
	else
		in_thread(set_limit, NULL);
}

const struct attack memory_attacks[] = {
	{"mappings", mappings},
	{"map-file", map_file},
	{"map-all", map_all},
	{"churn-mappings", churn_mappings},
	{"frame-table", frame_table},
	{"limit", limit},
	{"protect-stack", protect_stack_at},
	{NULL, NULL},
};
