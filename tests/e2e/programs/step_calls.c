// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a program and stops it at chosen system calls, so that a test can inject a fault
 * there:
 *
 *   step_calls PROGRAM [ARGUMENT...]
 *
 * Commands, one per line of standard input; system calls are given by number:
 *
 *   stop N NR[,NR...]        at the Nth of these calls from now on, of all threads, prints
 *                            "at NR ARGUMENT1 ARGUMENT2 TID" and holds the calling thread;
 *                            answers "stopping". One call is held at a time: calls of other
 *                            threads take place meanwhile, and do not count towards N.
 *   go                       the held call takes place
 *   fail ERRNO               it does not, and the program sees that error
 *   off                      no call is stopped; prints "seen NR:N ...", the count of each
 *
 * The program's standard output goes to standard error. Ends as the program ends. The kernel
 * does the stopping (seccomp's user notification): threads that make other calls run on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* All calls that can be chosen: those of an attach. */
static const int calls[] = {
	SYS_ptrace,	SYS_perf_event_open,   SYS_bpf,		       SYS_openat,	SYS_pread64,	SYS_pwrite64,
	SYS_mmap,	SYS_process_vm_readv,  SYS_process_vm_writev,  SYS_fcntl,	SYS_ioctl,	SYS_newfstatat,
	SYS_fstat,	SYS_fstatfs,	       SYS_readlink,	       SYS_wait4,	SYS_clone3,	SYS_eventfd2,
	SYS_getdents64, SYS_prlimit64,	       SYS_sched_setscheduler, 434 /* pidfd_open */, 438 /* pidfd_getfd */,
	SYS_epoll_create1, SYS_sendmsg,
};
enum { CALLS = sizeof(calls) / sizeof(*calls) };

static void die(const char *what)
{
	perror(what);
	exit(125);
}

/* The kernel asks about each call through this descriptor. */
static int install_filter(void)
{
	struct sock_filter code[CALLS + 3];
	struct sock_fprog program = {.len = CALLS + 3, .filter = code};
	int i, fd;

	code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (i = 0; i < CALLS; i++)
		code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], CALLS - i, 0);
	code[CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[CALLS + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	if (fd < 0)
		die("seccomp");
	return fd;
}

static pid_t start(char **command, int *listener)
{
	int to_parent[2], to_child[2], number = -1;
	char ready = 0;
	pid_t child;

	if (pipe2(to_parent, O_CLOEXEC) != 0 || pipe2(to_child, O_CLOEXEC) != 0)
		die("pipe");
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(2, 1);
		number = open("/dev/null", O_RDONLY);
		dup2(number, 0);
		number = install_filter();
		if (write(to_parent[1], &number, sizeof(number)) != sizeof(number) || read(to_child[0], &ready, 1) != 1)
			_exit(125);
		execv(command[0], command);
		_exit(127);
	}
	if (read(to_parent[0], &number, sizeof(number)) != sizeof(number))
		die("the program did not start");
	*listener = (int)syscall(438, syscall(434, child, 0), number, 0);
	if (*listener < 0)
		die("pidfd_getfd");
	if (write(to_child[1], &ready, 1) != 1)
		die("write");
	return child;
}

static unsigned char chosen[1024];
static long left;	    /* until the one to stop at; 0: none */
static long seen[1024];	    /* count of each chosen call, by number */
static unsigned long long held; /* a notification; 0: none */

static void answer(int listener, unsigned long long id, int error)
{
	struct seccomp_notif_resp response = {.id = id};

	if (error != 0)
		response.error = -error;
	else
		response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response); /* the thread may have died */
}

static void take_notification(int listener)
{
	struct seccomp_notif call = {0};

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0)
		return;
	/* Touches the memory, so that it exists. */
	if (chosen[call.data.nr & 1023] && (call.data.nr != SYS_mmap || (int)call.data.args[4] != -1)) {
		seen[call.data.nr & 1023]++;
		if (held == 0 && left > 0 && --left == 0) {
			held = call.id;
			printf("at %d %lld %lld %u\n", call.data.nr, (long long)call.data.args[0],
			       (long long)call.data.args[1], call.pid);
			return;
		}
	}
	answer(listener, call.id, 0);
}

static void choose(char *numbers)
{
	char *number;

	memset(chosen, 0, sizeof(chosen));
	memset(seen, 0, sizeof(seen));
	for (number = strtok(numbers, ","); number; number = strtok(NULL, ","))
		chosen[atoi(number) & 1023] = 1;
}

static void take_command(int listener, char *line)
{
	char numbers[512];
	int error = 0, i;

	if (sscanf(line, "stop %ld %511s", &left, numbers) == 2) {
		choose(numbers);
		printf("stopping\n");
	} else if (sscanf(line, "fail %d", &error) == 1 || strncmp(line, "go", 2) == 0) {
		answer(listener, held, error);
		held = 0;
	} else if (strncmp(line, "off", 3) == 0) {
		left = 0;
		if (held)
			answer(listener, held, 0);
		held = 0;
		printf("seen");
		for (i = 0; i < 1024; i++)
			if (seen[i])
				printf(" %d:%ld", i, seen[i]);
		printf("\n");
	}
}

/* Each read gets a whole command, because the sender waits for its answer. */
static int take_commands(int listener)
{
	static char buffer[4096];
	ssize_t n = read(0, buffer, sizeof(buffer) - 1);
	char *line, *rest = buffer;

	if (n <= 0)
		return 0;
	buffer[n] = 0;
	while ((line = strsep(&rest, "\n")) && *line)
		take_command(listener, line);
	return 1;
}

int main(int argc, char **argv)
{
	struct pollfd waits[2] = {{.fd = 0, .events = POLLIN}};
	int status = 0;
	pid_t child;

	if (argc < 2)
		return 125;
	setvbuf(stdout, NULL, _IOLBF, 0);
	child = start(argv + 1, &waits[1].fd);
	printf("pid %d\n", child);
	waits[1].events = POLLIN;
	for (;;) {
		if (poll(waits, 2, -1) < 0 && errno != EINTR)
			die("poll");
		if (waits[1].revents & POLLIN)
			take_notification(waits[1].fd);
		else if (waits[1].revents & (POLLHUP | POLLERR))
			break; /* the program has no threads left */
		if (waits[0].revents && !take_commands(waits[1].fd))
			waits[0].fd = -1;
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
