// SPDX-License-Identifier: Apache-2.0
// Shares memory as the agent does and takes it back, in processes that have reached a limit of the
// kernel meanwhile.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include "share_reserve.h"
#include "share_ring.h"

static const uint64_t ring_bytes = 1 << 20;
static char maps[32 << 20]; // a process may have 65,530 mappings

static void require(int is_true, const char *what)
{
	if (is_true)
		return;
	perror(what);
	exit(1);
}

static int shared_mappings(void)
{
	int fd = open("/proc/self/maps", O_RDONLY), mappings = 0;
	size_t length = 0;

	for (ssize_t more; (more = read(fd, maps + length, sizeof(maps) - 1 - length)) > 0;)
		length += (size_t)more;
	close(fd);
	maps[length] = 0;
	for (const char *at = maps; (at = strstr(at, "/memfd:")); at++)
		mappings++;
	return mappings;
}

static void no_limit(void) {}

static void limit_of_address_space(void)
{
	require(setrlimit(RLIMIT_AS, &(struct rlimit){1, RLIM_INFINITY}) == 0, "setrlimit");
}

// Neighbours with different rights are two mappings.
static void limit_of_mappings(void)
{
	const size_t page = 4096, pages = 1 << 17;
	char *place = mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(place != MAP_FAILED, "mmap");
	for (size_t i = 1; i < pages; i += 2)
		if (mprotect(place + i * page, page, PROT_READ) != 0)
			return;
	require(0, "no limit of mappings below 100,000");
}

static void take_back(const char *name, void (*reach_limit)(void))
{
	int fd = memfd_create("shared", 0);
	char *data;

	require(ftruncate(fd, (off_t)(MEMPROF_SHARE_RING + ring_bytes)) == 0, "ftruncate");
	require(memprof_share_map(fd, ring_bytes), "memprof_share_map");
	data = memprof_map_shared(NULL, MEMPROF_SHARE_DOMAINS_BYTES, fd, MEMPROF_SHARE_DOMAINS);
	require(data != NULL, "mmap");
	memprof_share_begin();
	printf("%s: shared %d", name, shared_mappings());
	reach_limit();
	*(char *)memprof_reserved(MEMPROF_SHARE_DOMAINS) = 42;
	memprof_share_end();
	memprof_move_reserved(data, MEMPROF_SHARE_DOMAINS, MEMPROF_SHARE_DOMAINS_BYTES);
	printf(", then %d, data %d\n", shared_mappings(), *data);
	fflush(stdout);
}

static void take_back_in_a_child(const char *name, void (*reach_limit)(void))
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		take_back(name, reach_limit);
		_exit(0);
	}
	require(waitpid(child, &status, 0) == child && status == 0, name);
}

int main(void)
{
	take_back_in_a_child("no limit", no_limit);
	take_back_in_a_child("address space", limit_of_address_space);
	take_back_in_a_child("mappings", limit_of_mappings);
	return 0;
}
