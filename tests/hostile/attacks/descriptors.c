/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors with false names: files of others that look like the agent's copy in memory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "hostile.h"

#define DECOY "/memfd:memprof_agent (deleted)"

static void must(int result, const char *what)
{
	if (result < 0)
		give_up(what);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	must(fd, path);
	must((int)write(fd, text, strlen(text)), path);
	close(fd);
}

/* Enters a user and a mount namespace, which needs no right on the host. */
static void own_namespaces(void)
{
	char map[64];
	unsigned int uid = geteuid(), gid = getegid();

	must(unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare");
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	write_file("/proc/self/gid_map", map);
}

/* Builds a root of our own with everything at the top of the old one. */
static void bind_all(const char *root)
{
	DIR *top = opendir("/");
	struct dirent *entry;
	struct stat info;
	char from[512], to[512];

	while ((entry = readdir(top))) {
		snprintf(from, sizeof(from), "/%s", entry->d_name);
		snprintf(to, sizeof(to), "%s/%s", root, entry->d_name);
		if (entry->d_name[0] == '.' || stat(from, &info) != 0 || !S_ISDIR(info.st_mode))
			continue;
		mkdir(to, 0755);
		must(mount(from, to, NULL, MS_BIND | MS_REC, NULL), from);
	}
	closedir(top);
}

static void enter_own_root(const char *victim)
{
	char place[128] = "/var/tmp" DECOY;
	const char *root = "/var/tmp"; /* /tmp holds the test's files */
	struct stat info;

	own_namespaces();
	must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
	must(mount("none", root, "tmpfs", 0, NULL), "tmpfs");
	bind_all(root);
	must(stat(victim, &info), victim);
	if (S_ISDIR(info.st_mode))
		must(mkdir(place, 0755), place);
	else
		must(close(open(place, O_CREAT | O_WRONLY, 0600)), place);
	must(mount(victim, place, NULL, MS_BIND, NULL), victim);
	must(chdir(root), root);
	must((int)syscall(SYS_pivot_root, ".", "."), "pivot_root");
	must(umount2(".", MNT_DETACH), "old root");
	must(chdir("/"), "/");
}

/* decoy VICTIM [FLAGS]: holds the victim under the name of the agent's copy, at the lowest
 * descriptor. No right to the victim is needed. */
static void decoy(int argc, char **argv)
{
	int fd;

	(void)argc;
	enter_own_root(argv[1]);
	fd = open(DECOY, O_PATH);
	must(fd, DECOY);
	fprintf(stderr, "hostile: descriptor %d is %s\n", fd, argv[1]);
}

/* other-root: changes only the root, so that the agent's file is not visible. */
static void other_root(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	enter_own_root("/dev/null");
}

/* memfds KIND: memory files of the right name that must not be written: sealed, full, or created
 * without the right to seal. The agent's own comes after them. */
static void memfds(int argc, char **argv)
{
	int flags = strcmp(argv[1], "unsealable") == 0 ? 0 : MFD_ALLOW_SEALING;
	int fd;

	(void)argc;
	enter_own_root("/dev/null");
	fd = memfd_create("memprof_agent", (unsigned)flags);
	must(fd, "memfd_create");
	if (strcmp(argv[1], "sealed") == 0)
		must(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_GROW), "seal");
	if (strcmp(argv[1], "mapped") == 0 &&
	    mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		give_up("mmap");
}

/* Attacks the descriptors of the agent's copy: closes, replaces or writes each that appears. */
static const char *victim_of_swap;

static void *swap_descriptors(void *context)
{
	char link[32], text[256];
	int victim = open(victim_of_swap, O_PATH | O_CLOEXEC);

	(void)context;
	must(victim, victim_of_swap);
	for (;;) {
		for (int fd = 3; fd < 16; fd++) {
			ssize_t n;

			snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
			n = readlink(link, text, sizeof(text) - 1);
			if (n < 0)
				continue;
			text[n] = 0;
			if (is_agent(text) && fd != victim)
				dup2(victim, fd);
		}
	}
	return NULL;
}

/* swap VICTIM: replaces the file of the agent's copy as soon as it has a descriptor. */
static void swap(int argc, char **argv)
{
	(void)argc;
	enter_own_root("/dev/null");
	victim_of_swap = argv[1];
	in_thread(swap_descriptors, NULL);
}

/* Exchanges the names of two folders without end. */
static void *exchange_names(void *context)
{
	char **words = context;

	for (;;)
		must(renameat2(AT_FDCWD, words[1], AT_FDCWD, words[2], RENAME_EXCHANGE), words[1]);
	return NULL;
}

/* exchange FOLDER OTHER: a name leads to another file a moment after it was checked. */
static void exchange(int argc, char **argv)
{
	(void)argc;
	in_thread(exchange_names, argv);
}

const struct attack descriptor_attacks[] = {
	{"decoy", decoy}, {"other-root", other_root}, {"memfds", memfds},
	{"swap", swap},	  {"exchange", exchange},     {NULL, NULL},
};
