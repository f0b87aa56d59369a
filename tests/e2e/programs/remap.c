/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded by tests: when the file $REMAP appears, maps the file that it names over the page
 * in which the agent's control block begins. The block's address is in $REMAP.address.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *order;
static char *page;

static void *wait_for_order(void *unused)
{
	char path[4096] = "";
	FILE *file;
	int fd;

	(void)unused;
	while (!(file = fopen(order, "r")))
		usleep(5000);
	if (!fgets(path, sizeof(path), file))
		abort();
	fd = open(path, O_RDONLY);
	if (mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) != page)
		abort();
	return NULL;
}

__attribute__((constructor)) static void start(void)
{
	char name[4096];
	pthread_t thread;
	FILE *file;

	order = getenv("REMAP");
	page = dlsym(RTLD_DEFAULT, "memprof_agent_control");
	if (!order || !page)
		abort();
	page -= (unsigned long)page % 4096;
	snprintf(name, sizeof(name), "%s.address", order);
	file = fopen(name, "w");
	fprintf(file, "%lu", (unsigned long)page);
	fclose(file);
	pthread_create(&thread, NULL, wait_for_order, NULL);
}
