/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded by tests: maps the file $MAP_FILE as code, which nothing ever runs, as soon as the
 * file exists; then creates the file $MAP_DONE. No other mapping is near, so that reads of adjacent
 * mappings do not reach it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void *map_when_there(void *path)
{
	const size_t room = 64 << 20;
	char *nowhere;
	int fd;

	while ((fd = open(path, O_RDONLY)) < 0)
		usleep(5000);
	nowhere = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mmap(nowhere + room / 2, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
		abort();
	close(fd);
	fclose(fopen(getenv("MAP_DONE"), "w"));
	return NULL;
}

__attribute__((constructor)) static void start(void)
{
	pthread_t thread;

	if (!getenv("MAP_FILE") || !getenv("MAP_DONE"))
		abort();
	pthread_create(&thread, NULL, map_when_there, getenv("MAP_FILE"));
}
