/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that call exec, multiply, or share memory and names with others. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"

/* ---------------------------------------------------------------- exec */

#define MAX_RANGES 200
#define LARGEST_RANGE (64ul << 20)

struct ranges {
	char text[MAX_RANGES][40];
	char *argv[MAX_RANGES + 3];
	int count;
};

/* Adds a writable range of this program: control block, stacks, heap, runtime state. */
static int add_range(const struct mapping *mapping, void *context)
{
	struct ranges *ranges = context;

	if (mapping->rights[1] == 'w' && mapping->end - mapping->begin <= LARGEST_RANGE &&
	    mapping->path[0] != '[') {
		snprintf(ranges->text[ranges->count], sizeof(ranges->text[0]), "%lx-%lx",
			 mapping->begin, mapping->end);
		ranges->argv[2 + ranges->count] = ranges->text[ranges->count];
		ranges->count++;
	}
	return ranges->count == MAX_RANGES;
}

static char **exec_words;

static void *become(void *context)
{
	static struct ranges ranges;

	(void)context;
	wait_for(exec_words[2]);
	ranges.argv[0] = exec_words[1];
	ranges.argv[1] = exec_words[1];
	each_mapping(add_range, &ranges);
	execv(exec_words[1], ranges.argv);
	give_up(exec_words[1]);
}

/* exec PROGRAM MOMENT: calls exec with the program's name and the writable ranges of this one:
 * tests/hostile/canary.c. */
static void exec_at(int argc, char **argv)
{
	(void)argc;
	exec_words = argv;
	in_thread(become, NULL);
}

/* Starts children one after the other; each lives long enough to be detected. */
static void *become_in_children(void *context)
{
	int children = atoi(exec_words[2]);

	(void)context;
	wait_for("go");
	for (int i = 0; i < children; i++) {
		pid_t child;
		int input[2];

		if (pipe(input) != 0 || (child = fork()) < 0)
			give_up("fork");
		if (child == 0) {
			char *words[] = {"exec", exec_words[1], "at-once"};

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			dup2(input[0], 0);
			close(input[1]);
			usleep(80000 + 30000 * (unsigned)(i % 8));
			exec_words = words;
			become(NULL);
		}
		close(input[0]);
		usleep(400000);
		close(input[1]);
		waitpid(child, NULL, 0);
	}
	return NULL;
}

/* exec-child PROGRAM N: N children, each of which calls exec some tenths of a second after its
 * fork, and ends a while later. */
static void exec_in_children(int argc, char **argv)
{
	(void)argc;
	exec_words = argv;
	in_thread(become_in_children, NULL);
}

/* ---------------------------------------------------------------- forks */

static void *fork_without_end(void *context)
{
	int execs = context != NULL;

	for (;;) {
		pid_t child = execs ? vfork() : fork();

		if (child == 0) {
			if (execs)
				execl("/bin/true", "/bin/true", NULL);
			_exit(0);
		}
		if (child < 0)
			usleep(1000);
		else
			waitpid(child, NULL, 0);
	}
	return NULL;
}

/* fork-storm [exec]: starts children without end, which exit or call exec at once. */
static void fork_storm(int argc, char **argv)
{
	in_thread(fork_without_end, argc > 1 ? argv[1] : NULL);
}

static int share_memory(void *context)
{
	(void)context;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return 0;
}

/* shared-memory: starts a process that shares the address space, as after vfork. */
static void shared_memory(int argc, char **argv)
{
	const size_t bytes = 64 << 10;
	char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)argc;
	(void)argv;
	if (clone(share_memory, stack + bytes, CLONE_VM | SIGCHLD, NULL) < 0)
		give_up("clone");
}

/* ---------------------------------------------------------------- a child that disturbs */

/* The child always ends with its parent. */
static pid_t disturber(void)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0)
		give_up("fork");
	if (child != 0)
		return 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return parent;
}

/* tracer: a child traces this process briefly, again and again. */
static void tracer(int argc, char **argv)
{
	pid_t parent = disturber();

	(void)argc;
	(void)argv;
	while (parent) {
		if (ptrace(PTRACE_SEIZE, parent, 0, 0) == 0) {
			usleep(2000);
			ptrace(PTRACE_INTERRUPT, parent, 0, 0);
			waitpid(parent, NULL, __WALL);
			ptrace(PTRACE_DETACH, parent, 0, 0);
		}
		usleep(3000);
	}
}

/* stop MOMENT MICROSECONDS: a child stops this process (SIGSTOP) at the moment and continues it
 * later. The child itself waits for the moment, so only "go" is possible. */
static void stop_at(int argc, char **argv)
{
	pid_t parent = disturber();

	(void)argc;
	if (!parent)
		return;
	wait_for(argv[1]);
	kill(parent, SIGSTOP);
	usleep((useconds_t)atol(argv[2]));
	kill(parent, SIGCONT);
	_exit(0);
}

/* stop-storm: SIGSTOP and SIGCONT without end. */
static void stop_storm(int argc, char **argv)
{
	pid_t parent = disturber();

	(void)argc;
	(void)argv;
	while (parent) {
		kill(parent, SIGSTOP);
		usleep(300);
		kill(parent, SIGCONT);
		usleep(1500);
	}
}

/* ---------------------------------------------------------------- ends and names */

static char *moment_of_end;

static void *end_at(void *context)
{
	(void)context;
	wait_for(moment_of_end);
	_exit(7);
}

/* exit MOMENT: ends with code 7. */
static void exit_at(int argc, char **argv)
{
	(void)argc;
	moment_of_end = argv[1];
	in_thread(end_at, NULL);
}

/* hostile-name: a name with escapes, quotes, a newline and invalid UTF-8. */
static void hostile_name(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	prctl(PR_SET_NAME, "\033[31mE\nx\"y\\\377{");
}

static void *remove_file(void *context)
{
	char **words = context;
	char other[4200];

	wait_for(words[3]);
	snprintf(other, sizeof(other), "%s.new", words[2]);
	if (strcmp(words[1], "unlink") == 0) {
		if (unlink(words[2]) != 0)
			give_up(words[2]);
	} else if (strcmp(words[1], "replace") == 0) {
		if (rename(other, words[2]) != 0)
			give_up(other);
	} else if (strcmp(words[1], "truncate") == 0) {
		if (truncate(words[2], 100) != 0)
			give_up(words[2]);
	}
	return NULL;
}

/* file unlink|replace|truncate PATH MOMENT: changes a file that an attach reads. */
static void file_at(int argc, char **argv)
{
	(void)argc;
	in_thread(remove_file, argv);
}

const struct attack process_attacks[] = {
	{"exec", exec_at},
	{"exec-child", exec_in_children},
	{"fork-storm", fork_storm},
	{"shared-memory", shared_memory},
	{"tracer", tracer},
	{"stop", stop_at},
	{"stop-storm", stop_storm},
	{"exit", exit_at},
	{"file", file_at},
	{"hostile-name", hostile_name},
	{NULL, NULL},
};
