/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "hostile.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_WORDS 16

void give_up(const char *what)
{
	fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
	_exit(99);
}

void end_wrong(const char *what)
{
	fprintf(stderr, "hostile: %s\n", what);
	_exit(98);
}

void in_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	errno = pthread_create(&thread, &attributes, run, argument);
	if (errno)
		give_up("thread");
}

int each_mapping(int (*take)(const struct mapping *mapping, void *context), void *context)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	struct mapping mapping;
	char line[1024];
	int answer = 0;

	if (!maps)
		give_up("/proc/self/maps");
	while (!answer && fgets(line, sizeof(line), maps)) {
		mapping.path[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %511[^\n]", &mapping.begin, &mapping.end,
			   mapping.rights, mapping.path) >= 3)
			answer = take(&mapping, context);
	}
	fclose(maps);
	return answer;
}

int is_agent(const char *path)
{
	return strstr(path, "libmemprof_agent") || strstr(path, "memfd:memprof_agent");
}

/* ---------------------------------------------------------------- moments */

int go_file_is_there(void)
{
	const char *path = getenv("HOSTILE_GO");

	if (!path)
		give_up("no HOSTILE_GO");
	return access(path, F_OK) == 0;
}

static int is_traced(const char *task)
{
	char path[64], status[4096];
	char *line;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", task);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, status, sizeof(status) - 1);
	close(fd);
	status[n > 0 ? n : 0] = 0;
	line = strstr(status, "TracerPid:");
	return line && atoi(line + 10) != 0;
}

static int is_seized(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int seized = 0;

	while (!seized && (entry = readdir(tasks)))
		seized = entry->d_name[0] != '.' && is_traced(entry->d_name);
	closedir(tasks);
	return seized;
}

static int mapping_is_agent(const struct mapping *mapping, void *context)
{
	(void)context;
	return is_agent(mapping->path);
}

static int agent_is_mapped(void) { return each_mapping(mapping_is_agent, NULL); }

/* This thread may miss the milliseconds for which one is held, but the agent stays afterwards. */
static int has_been_seized(void) { return is_seized() || agent_is_mapped(); }

/* Compares the program's mapped code with its file. */
static struct {
	const unsigned char *memory;
	unsigned char *file;
	size_t bytes;
} code;

static int find_code(struct dl_phdr_info *info, size_t size, void *context)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)size;
	(void)context;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		code.memory = (const unsigned char *)(info->dlpi_addr + segment->p_vaddr);
		code.bytes = segment->p_filesz;
		code.file = malloc(code.bytes);
		if (pread(fd, code.file, code.bytes, segment->p_offset) != (ssize_t)code.bytes)
			give_up("/proc/self/exe");
	}
	close(fd);
	return 1; /* the program is the first mapping */
}

static int has_breakpoint(void)
{
	if (!code.memory)
		dl_iterate_phdr(find_code, NULL);
	return memcmp(code.memory, code.file, code.bytes) != 0;
}

static void sleep_us(long us)
{
	const struct timespec time = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&time, NULL);
}

static void until(int (*condition)(void))
{
	while (!condition())
		sleep_us(50);
}

void wait_for(const char *moment)
{
	if (strcmp(moment, "at-once") == 0)
		return;
	if (strcmp(moment, "seized") == 0) {
		until(has_been_seized);
	} else if (strcmp(moment, "breakpoint") == 0) {
		until(has_breakpoint);
	} else if (strcmp(moment, "agent") == 0) {
		until(agent_is_mapped);
	} else if (strncmp(moment, "go", 2) == 0) {
		until(go_file_is_there);
		if (moment[2] == '+')
			sleep_us(atol(moment + 3));
	} else {
		errno = EINVAL;
		give_up(moment);
	}
}

/* ---------------------------------------------------------------- attacks by name */

static int run_from(const struct attack *attacks, int argc, char **argv)
{
	for (; attacks->name; attacks++) {
		if (strcmp(attacks->name, argv[0]) == 0) {
			attacks->run(argc, argv);
			return 1;
		}
	}
	return 0;
}

static void run_one(char *text)
{
	char **argv = calloc(MAX_WORDS + 1, sizeof(*argv));
	char *rest = NULL;
	int argc = 0;

	for (char *word = strtok_r(text, " ", &rest); word && argc < MAX_WORDS;
	     word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	if (argc == 0)
		return;
	if (!run_from(descriptor_attacks, argc, argv) && !run_from(memory_attacks, argc, argv) &&
	    !run_from(process_attacks, argc, argv) && !run_from(signal_attacks, argc, argv) &&
	    !run_from(malloc_attacks, argc, argv) && !run_from(slot_attacks, argc, argv)) {
		errno = EINVAL;
		give_up(argv[0]);
	}
}

/* Ignores children that run other programs. Words live as long as the process. */
__attribute__((constructor)) static void start(void)
{
	const char *wanted = getenv("HOSTILE");
	char *text, *rest = NULL;

	if (!wanted)
		return;
	text = strdup(wanted);
	unsetenv("HOSTILE");
	unsetenv("LD_PRELOAD");
	for (char *one = strtok_r(text, ";", &rest); one; one = strtok_r(NULL, ";", &rest))
		run_one(one);
}
