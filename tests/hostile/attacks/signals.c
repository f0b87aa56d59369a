/* SPDX-License-Identifier: Apache-2.0 */
/* Unexpected signals, and threads that block signals. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"

/* block-signals [NUMBER]: the main thread, and each thread that it starts, blocks all signals or
 * NUMBER. */
static void block_signals(int argc, char **argv)
{
	sigset_t blocked;

	sigfillset(&blocked);
	if (argc > 1) {
		sigemptyset(&blocked);
		sigaddset(&blocked, atoi(argv[1]));
	}
	if (sigprocmask(SIG_BLOCK, &blocked, NULL) != 0)
		give_up("sigprocmask");
}

static int numbers[64];
static int how_many;
static const char *moment;

/* A process may send any sender to its own threads, so this claims an unexpected one. */
static void send_to_thread(pid_t tid, int number)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = number;
	info.si_code = rand() % 2 ? SI_QUEUE : SI_TKILL;
	info.si_pid = getpid();
	info.si_uid = getuid();
	syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, number, &info);
}

static void to_all_threads(pid_t but)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;

	while (tasks && (entry = readdir(tasks))) {
		pid_t tid = atoi(entry->d_name);

		if (tid > 0 && tid != but)
			send_to_thread(tid, numbers[rand() % how_many]);
	}
	if (tasks)
		closedir(tasks);
}

static void *storm(void *context)
{
	const struct timespec pause = {0, 1000000};
	pid_t self = (pid_t)syscall(SYS_gettid);

	(void)context;
	wait_for(moment);
	for (;;) {
		to_all_threads(self);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* Handles all signals but SIGURG, whose default is to ignore it. */
static void nothing(int number) { (void)number; }

/* signals MOMENT NUMBER...: from the moment on, sends one of them to each thread every millisecond.
 */
static void signals(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};

	moment = argv[1];
	for (int i = 2; i < argc; i++) {
		numbers[how_many++] = atoi(argv[i]);
		if (numbers[how_many - 1] != SIGURG)
			sigaction(numbers[how_many - 1], &action, NULL);
	}
	in_thread(storm, NULL);
}

static void *once(void *context)
{
	pid_t self = (pid_t)syscall(SYS_gettid);

	(void)context;
	wait_for(moment);
	to_all_threads(self);
	return NULL;
}

/* signal MOMENT NUMBER: sends it to each thread once. */
static void signal_once(int argc, char **argv)
{
	(void)argc;
	moment = argv[1];
	numbers[how_many++] = atoi(argv[2]);
	in_thread(once, NULL);
}

const struct attack signal_attacks[] = {
	{"block-signals", block_signals},
	{"signals", signals},
	{"signal", signal_once},
	{NULL, NULL},
};
