/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "buffers.h"
#include "memprof_ocaml4_abi.h"
#include "memprof_values_abi.h"
#include "share_reserve.h"
#include "share_ring.h"

extern value caml_thread_initialize(value unit) WEAK;

static int starting; /* the runtime has not run any OCaml code yet */

__attribute__((visibility("default"))) void memprof_agent_poll(void);

/* ------------------------------------------------------------------ the agent's data */

/* The parts of the agent's data. */
struct data {
	struct memprof_agent_control *control;
	struct memprof_domain *domains;
	struct memprof_batch_buffer *buffers;
};

/* The state of the session, domains and samples is kept; records that are in no batch yet are
 * dropped. */
static void copy_data(const struct data *to)
{
	*to->control = memprof_agent_control;
	memcpy(to->domains, memprof_domains, to->control->domains_used * sizeof(*to->domains));
	for (uint32_t i = 0; i < to->control->buffers_used; i++) {
		to->buffers[i].first_seq = memprof_buffers[i].first_seq + memprof_buffers[i].count;
		to->buffers[i].last_sample = memprof_buffers[i].last_sample;
	}
}

static void unmap(void *part, size_t bytes)
{
	if (part)
		munmap(part, bytes);
}

static int put_over(void *place, size_t bytes, void *part)
{
	return mremap(part, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place;
}

/* Replaces the memory behind the agent's data by shared memory. */
static int give_data(int fd)
{
	struct data shared = {
		.control = memprof_map_shared(NULL, MEMPROF_SHARE_CONTROL_BYTES, fd,
					      MEMPROF_SHARE_CONTROL),
		.domains = memprof_map_shared(NULL, MEMPROF_SHARE_DOMAINS_BYTES, fd,
					      MEMPROF_SHARE_DOMAINS),
		.buffers = memprof_map_shared(NULL, MEMPROF_SHARE_BUFFERS_BYTES, fd,
					      MEMPROF_SHARE_BUFFERS),
	};

	if (!shared.control || !shared.domains || !shared.buffers) {
		unmap(shared.control, MEMPROF_SHARE_CONTROL_BYTES);
		unmap(shared.domains, MEMPROF_SHARE_DOMAINS_BYTES);
		unmap(shared.buffers, MEMPROF_SHARE_BUFFERS_BYTES);
		return 0;
	}
	copy_data(&shared);
	return put_over(memprof_buffers, MEMPROF_SHARE_BUFFERS_BYTES, shared.buffers) &&
	       put_over(memprof_domains, MEMPROF_SHARE_DOMAINS_BYTES, shared.domains) &&
	       put_over(&memprof_agent_control, MEMPROF_SHARE_CONTROL_BYTES, shared.control);
}

/* Replaces it by the reserve. */
static void take_data_back(void)
{
	const struct data reserved = {.control = memprof_reserved(MEMPROF_SHARE_CONTROL),
				      .domains = memprof_reserved(MEMPROF_SHARE_DOMAINS),
				      .buffers = memprof_reserved(MEMPROF_SHARE_BUFFERS)};

	copy_data(&reserved);
	memprof_move_reserved(memprof_buffers, MEMPROF_SHARE_BUFFERS, MEMPROF_SHARE_BUFFERS_BYTES);
	memprof_move_reserved(memprof_domains, MEMPROF_SHARE_DOMAINS, MEMPROF_SHARE_DOMAINS_BYTES);
	memprof_move_reserved(&memprof_agent_control, MEMPROF_SHARE_CONTROL,
			      MEMPROF_SHARE_CONTROL_BYTES);
}

static void end_sharing(void)
{
	memprof_share_end();
	take_data_back();
}

/* ------------------------------------------------------------------ taking shared memory */

static int is_ours(const struct memprof_share *share)
{
	return share->magic == MEMPROF_SHARE_MAGIC && share->abi_version == MEMPROF_AGENT_ABI &&
	       share->capture != MEMPROF_CAPTURE_BY_KERNEL &&
	       share->ring_bytes >= MEMPROF_SHARE_PAGE &&
	       share->ring_bytes % MEMPROF_SHARE_PAGE == 0;
}

/* Only the first of several processes that inherited the memory takes it. */
static int claim(struct memprof_share *share)
{
	uint32_t nobody = 0;

	return __atomic_compare_exchange_n(&share->pid, &nobody, (uint32_t)getpid(), 0,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void request_session(const struct memprof_share *share)
{
	struct memprof_agent_control *control = &memprof_agent_control;

	control->requested_rate = share->rate;
	control->requested_until_ns = share->until_ns;
	control->requested_capture = share->capture;
	control->offsets = share->offsets;
	control->owner[0] = share->owner[0];
	control->owner[1] = share->owner[1];
	control->requested_generation = 1;
}

/* Stores "" if the path is too long. */
static void path_of_program(char exe[MEMPROF_SHARE_PATH])
{
	ssize_t length = readlink("/proc/self/exe", exe, MEMPROF_SHARE_PATH);

	if (length < 0 || length == (ssize_t)MEMPROF_SHARE_PATH)
		length = 0;
	exe[length] = 0;
}

static void introduce(struct memprof_share *share)
{
	path_of_program(share->exe);
	share->domains = (uintptr_t)memprof_domains;
	share->buffers = (uintptr_t)memprof_buffers;
	share->callback_exn = (uintptr_t)caml_callback_exn;
	__atomic_store_n(&share->control, (uintptr_t)&memprof_agent_control, __ATOMIC_RELEASE);
}

/* Maps that memory and puts the agent's data into it. */
static int share_data(int fd, uint64_t ring_bytes)
{
	if (!memprof_share_map(fd, ring_bytes))
		return 0;
	if (give_data(fd))
		return 1;
	end_sharing();
	return 0;
}

/* Returns true if this process may take the memory behind the descriptor. *ring_bytes: size of its
 * ring; 0: it is no memory to share. */
static int may_take(int fd, uint64_t *ring_bytes)
{
	struct memprof_share *share = memprof_map_shared(NULL, MEMPROF_SHARE_CONTROL, fd, 0);
	int taken;

	*ring_bytes = 0;
	if (!share)
		return 0;
	if (is_ours(share))
		*ring_bytes = share->ring_bytes;
	taken = *ring_bytes != 0 && claim(share);
	munmap(share, MEMPROF_SHARE_CONTROL);
	return taken;
}

/* Returns true if this process has taken the memory. Closes the descriptor if it is of such memory;
 * any other descriptor is the program's. */
static int take(int fd)
{
	uint64_t ring_bytes;
	int taken = may_take(fd, &ring_bytes) && share_data(fd, ring_bytes);

	if (taken) {
		memprof_share_begin();
		request_session(memprof_share);
		introduce(memprof_share);
	}
	if (ring_bytes != 0)
		close(fd);
	return taken;
}

/* ------------------------------------------------------------------ asking for it */

static char reader[MEMPROF_SHARE_NAME]; /* name of its socket; "": it follows one process */

#define PATIENCE_US 500000 /* a stopped reader delays the program at most this long */
#define PAUSE_US 1000	   /* between two checks for an answer */
#define TRIES 16	   /* attempts of a call that signals interrupt */

static int connect_to_reader(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_usec = PATIENCE_US};
	size_t length = strlen(reader);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	memcpy(address.sun_path + 1, reader, length);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	for (int i = 0; i < TRIES; i++) {
		if (connect(fd, (struct sockaddr *)&address,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0)
			return fd;
		if (errno != EINTR)
			break;
	}
	close(fd);
	return -1;
}

static int send_request(int fd, enum memprof_share_kind kind)
{
	struct memprof_share_request request = {
		.magic = MEMPROF_SHARE_MAGIC, .abi_version = MEMPROF_AGENT_ABI, .kind = kind};

	path_of_program(request.exe);
	return send(fd, &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request);
}

/* Returns the descriptor of the memory that the reader has made for this process, or -1. */
static int receive_memory(int fd)
{
	char answer, control[CMSG_SPACE(sizeof(int))];
	struct iovec data = {.iov_base = &answer, .iov_len = 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	const struct cmsghdr *head;
	ssize_t length = -1;
	int memory;

	for (int i = 0; i < TRIES && length < 0; i++) {
		length = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
		if (length < 0 && errno != EINTR)
			return -1;
	}
	head = length == 1 ? CMSG_FIRSTHDR(&message) : NULL;
	if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
	    head->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&memory, CMSG_DATA(head), sizeof(memory));
	return memory;
}

/* Returns true if this process has received memory and taken it. */
static int ask(enum memprof_share_kind kind)
{
	int error = errno, taken = 0, memory, fd;

	if (!*reader)
		return 0;
	fd = connect_to_reader();
	if (fd >= 0) {
		memory = -1;
		if (send_request(fd, kind) && kind != MEMPROF_SHARE_NO_RUNTIME)
			memory = receive_memory(fd);
		taken = memory >= 0 && take(memory);
		close(fd);
	}
	errno = error;
	return taken;
}

static void remember_reader(void)
{
	const char *name = getenv(MEMPROF_SHARE_SOCKET);

	if (name && strlen(name) < sizeof(reader))
		strcpy(reader, name);
}

void memprof_share_no_runtime(void)
{
	remember_reader();
	(void)ask(MEMPROF_SHARE_NO_RUNTIME);
}

/* If the reader follows children, they load the agent too. */
static void restore_environment(void)
{
	const char *preload = getenv(MEMPROF_SHARE_PRELOAD);

	unsetenv(MEMPROF_SHARE_FD);
	if (getenv(MEMPROF_CHECK_PID)) {
		char pid[16];

		snprintf(pid, sizeof(pid), "%d", (int)getpid());
		setenv(MEMPROF_CHECK_PID, pid, 1);
	}
	if (*reader)
		return;
	if (preload && *preload)
		setenv("LD_PRELOAD", preload, 1);
	else if (preload)
		unsetenv("LD_PRELOAD");
	unsetenv(MEMPROF_SHARE_PRELOAD);
}

/* A reader that started a script learns from us which program runs, and can then determine its
 * offsets. */
static void wait_for_offsets(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_US * 1000};

	if (!caml_ml_domain_index || memprof_agent_control.offsets.memprof != 0)
		return;
	for (int us = 0; us < PATIENCE_US; us += PAUSE_US) {
		if (__atomic_load_n(&memprof_share->answered, __ATOMIC_ACQUIRE))
			return;
		nanosleep(&pause, NULL);
	}
}

void memprof_share_load(void)
{
	const char *number = getenv(MEMPROF_SHARE_FD);

	remember_reader();
	if (!(number && take(atoi(number))) && !ask(MEMPROF_SHARE_STARTED))
		return;
	restore_environment();
	wait_for_offsets();
	memprof_activity.watchers = 1;
	starting = 1;
}

/* ------------------------------------------------------------------ start and end */

static int heap_is_there(void)
{
	char *state = &Caml_state ? Caml_state : NULL;
	unsigned young_start = MEMPROF_OCAML4_YOUNG_START;

	if (caml_ml_domain_index) {
		state = caml_state;
		young_start = MEMPROF_DOMAIN_YOUNG_START;
	}
	return state && *(uint64_t *)(state + young_start) != 0;
}

/* When OCaml 4's threads library is initialised, it drops the hooks of before, and with them those
 * of make_room.c. A second time it does nothing, so the program's own call may come later. */
static void initialize_threads(void)
{
	if (!caml_ml_domain_index && caml_thread_initialize)
		caml_thread_initialize(VAL_UNIT);
}

/* Every runtime since 4.11 calls this function when its heap exists and before any OCaml code runs;
 * callbacks are legal there. Otherwise it makes the system call, as the C library does. */
__attribute__((visibility("default"))) int sigaltstack(const stack_t *stack, stack_t *before)
{
	long result = syscall(SYS_sigaltstack, stack, before);

	if (UNLIKELY(starting && heap_is_there())) {
		starting = 0;
		initialize_threads();
		memprof_agent_poll();
	}
	return (int)result;
}

/* ------------------------------------------------------------------ in a program that runs */

__attribute__((visibility("default"))) struct memprof_share_order memprof_share_order;
/* The memfd until the reader's session begins; -1: none is open. */
static int made = -1;
/* The program may close a descriptor that it does not know, and reuse its number. */
static dev_t made_device;
static ino_t made_inode;
static int is_ordered; /* the shared memory was created for an order */

/* C libraries before 2.33 have no function of that name. */
static int stat_of(int fd, struct stat *file) { return (int)syscall(SYS_fstat, fd, file); }

static void close_made(void)
{
	struct stat file;

	if (made >= 0 && stat_of(made, &file) == 0 && file.st_dev == made_device &&
	    file.st_ino == made_inode)
		close(made);
	made = -1;
}

/* A file beyond the limit would send the program a signal. */
static int may_be_as_long(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

static int fill(int fd)
{
	struct memprof_share *share;
	struct stat file;

	if (ftruncate(fd, MEMPROF_SHARE_RING + MEMPROF_SHARE_RING_BYTES) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
	    stat_of(fd, &file) != 0)
		return 0;
	share = memprof_map_shared(NULL, MEMPROF_SHARE_CONTROL, fd, 0);
	if (!share)
		return 0;
	share->magic = MEMPROF_SHARE_MAGIC;
	share->abi_version = MEMPROF_AGENT_ABI;
	share->ring_bytes = MEMPROF_SHARE_RING_BYTES;
	share->pid = (uint32_t)getpid();
	munmap(share, MEMPROF_SHARE_CONTROL);
	made_device = file.st_dev;
	made_inode = file.st_ino;
	return 1;
}

/* Returns the descriptor, or -errno. */
static int make_memory(void)
{
	int fd;

	if (!may_be_as_long(MEMPROF_SHARE_RING + MEMPROF_SHARE_RING_BYTES))
		return -EFBIG;
	fd = (int)syscall(SYS_memfd_create, "memprof-share", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (fill(fd) && share_data(fd, MEMPROF_SHARE_RING_BYTES))
		return fd;
	close(fd);
	return -ENOMEM;
}

static int is_unanswered(void)
{
	return __atomic_load_n(&memprof_share_order.wanted, __ATOMIC_ACQUIRE) !=
	       memprof_share_order.answered;
}

static int session_is_requested(void) { return memprof_agent_control.requested_rate > 0; }

/* The reader has died before its session, or its session was refused. */
static int is_over(void)
{
	uint64_t now_ns;

	if (LIKELY(!is_ordered))
		return 0;
	now_ns = memprof_now_ns();
	return now_ns > memprof_share_order.until_ns &&
	       (now_ns > memprof_agent_control.requested_until_ns || !session_is_requested());
}

int memprof_share_is_of_another(void)
{
	const __u64 *owner = memprof_agent_control.owner;

	return memprof_share &&
	       (owner[0] != memprof_share->owner[0] || owner[1] != memprof_share->owner[1]);
}

/* Another watcher requests a session. */
static int is_taken_over(void) { return session_is_requested() && memprof_share_is_of_another(); }

int memprof_share_needs_care(void)
{
	if (LIKELY(!is_unanswered() && !memprof_share) || memprof_activity.sampling)
		return 0;
	return is_unanswered() || is_over() || is_taken_over();
}

/* Returns the descriptor, or -errno. */
static int share_as_ordered(void)
{
	if (memprof_now_ns() > memprof_share_order.until_ns)
		return -ETIMEDOUT;
	made = make_memory();
	if (made < 0)
		return made;
	is_ordered = 1;
	memprof_share_begin();
	introduce(memprof_share);
	__atomic_fetch_add(&memprof_activity.watchers, 1, __ATOMIC_RELAXED);
	return made;
}

static void leave(void)
{
	if (!memprof_share)
		return;
	end_sharing();
	close_made();
	is_ordered = 0;
	__atomic_fetch_sub(&memprof_activity.watchers, 1, __ATOMIC_RELAXED);
}

static void obey(void)
{
	uint32_t wanted = __atomic_load_n(&memprof_share_order.wanted, __ATOMIC_ACQUIRE);

	leave();
	if (wanted == memprof_share_order.answered)
		return;
	memprof_share_order.descriptor = share_as_ordered();
	__atomic_store_n(&memprof_share_order.answered, wanted, __ATOMIC_RELEASE);
}

/* Several domains may come here at once. */
void memprof_share_care(void)
{
	int error = errno;

	memprof_lock_data();
	if (memprof_share_needs_care())
		obey();
	memprof_unlock_data();
	errno = error;
}

void memprof_share_leave(void)
{
	int error = errno;

	memprof_lock_data();
	leave();
	memprof_unlock_data();
	errno = error;
}

void memprof_share_begins_session(void) { close_made(); }

/* ------------------------------------------------------------------ forked children */

/* State of a forked child: whether it may request memory of its own, or one of its threads is doing
 * so. */
enum { NO_CHILD, MAY_ASK, ASKS };
static int child;

void memprof_share_forked(void)
{
	memprof_share_order.wanted = memprof_share_order.answered;
	memprof_unlock_data(); /* another thread of the parent may have held it */
	if (!memprof_share)
		return;
	leave();
	starting = 0;
	memprof_activity.watchers = 0;
	memprof_agent_control.owner[0] = memprof_agent_control.owner[1] = 0;
	for (uint32_t i = 0; i < memprof_agent_control.buffers_used; i++)
		memprof_buffers[i].first_seq = 0; /* its reader begins to count there */
	child = memprof_activity.sampling && *reader ? MAY_ASK : NO_CHILD;
}

int memprof_share_join(void)
{
	int may_ask = MAY_ASK, joined;

	if (LIKELY(__atomic_load_n(&child, __ATOMIC_ACQUIRE) == NO_CHILD))
		return 0;
	if (!__atomic_compare_exchange_n(&child, &may_ask, ASKS, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&child, __ATOMIC_ACQUIRE) == ASKS)
			sched_yield();
		return memprof_share != NULL;
	}
	joined = ask(MEMPROF_SHARE_FORKED);
	if (joined) {
		memprof_announce(memprof_agent_control.running_generation);
		memprof_activity.watchers = 1;
	}
	__atomic_store_n(&child, NO_CHILD, __ATOMIC_RELEASE);
	return joined;
}
