/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "share.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "buffers.h"
#include "share_ring.h"

static int starting; /* the runtime has not run OCaml code yet */
static struct memprof_agent_control initial_control;

__attribute__((visibility("default"))) void memprof_agent_poll(void);
#define OCAML4_YOUNG_START 32

/* ------------------------------------------------------------------ taking it */

static void *map_shared(void *place, size_t bytes, int flags, int fd, uint64_t offset)
{
	return mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, (off_t)offset);
}

static int map_over(void *place, size_t bytes, int fd, uint64_t offset)
{
	return map_shared(place, bytes, MAP_FIXED, fd, offset) == place;
}

static void map_private(void *place, size_t bytes)
{
	(void)mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0);
}

static void make_private(void)
{
	map_private(&memprof_agent_control, MEMPROF_SHARE_CONTROL_BYTES);
	map_private(memprof_domains, MEMPROF_SHARE_DOMAINS_BYTES);
	map_private(memprof_buffers, MEMPROF_SHARE_BUFFERS_BYTES);
	memprof_agent_control = initial_control;
}

static int share_data(int fd)
{
	if (map_over(memprof_buffers, MEMPROF_SHARE_BUFFERS_BYTES, fd, MEMPROF_SHARE_BUFFERS) &&
	    map_over(memprof_domains, MEMPROF_SHARE_DOMAINS_BYTES, fd, MEMPROF_SHARE_DOMAINS) &&
	    map_over(&memprof_agent_control, MEMPROF_SHARE_CONTROL_BYTES, fd,
		     MEMPROF_SHARE_CONTROL)) {
		memprof_agent_control = initial_control;
		return 1;
	}
	make_private();
	return 0;
}

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
	control->requested_generation = 1;
}

static void introduce(struct memprof_share *share)
{
	ssize_t length = readlink("/proc/self/exe", share->exe, sizeof(share->exe));

	if (length < 0 || length == (ssize_t)sizeof(share->exe))
		length = 0;
	share->exe[length] = 0;
	share->domains = (uintptr_t)memprof_domains;
	share->buffers = (uintptr_t)memprof_buffers;
	share->callback_exn = (uintptr_t)caml_callback_exn;
	__atomic_store_n(&share->control, (uintptr_t)&memprof_agent_control, __ATOMIC_RELEASE);
}

/* Returns whether this process has taken the memory. */
static int take(int fd)
{
	struct memprof_share *share = map_shared(NULL, MEMPROF_SHARE_CONTROL, 0, fd, 0);

	if (share == MAP_FAILED)
		return 0;
	if (is_ours(share) && claim(share)) {
		char *ring = map_shared(NULL, share->ring_bytes, 0, fd, MEMPROF_SHARE_RING);

		initial_control = memprof_agent_control;
		if (ring != MAP_FAILED && share_data(fd)) {
			request_session(share);
			introduce(share);
			memprof_share_begin(share, ring);
			return 1;
		}
	}
	munmap(share, MEMPROF_SHARE_CONTROL);
	return 0;
}

static void restore_environment(void)
{
	const char *preload = getenv(MEMPROF_SHARE_PRELOAD);

	if (preload && *preload)
		setenv("LD_PRELOAD", preload, 1);
	else if (preload)
		unsetenv("LD_PRELOAD");
	unsetenv(MEMPROF_SHARE_PRELOAD);
	unsetenv(MEMPROF_SHARE_FD);
}

void memprof_share_load(void)
{
	const char *number = getenv(MEMPROF_SHARE_FD);
	int fd = number ? atoi(number) : -1;

	if (fd < 0 || !take(fd))
		return;
	close(fd);
	restore_environment();
	memprof_activity.watchers = 1;
	starting = 1;
}

/* ------------------------------------------------------------------ start and end */

static int heap_is_there(void)
{
	char *state = &Caml_state ? Caml_state : NULL;
	unsigned young_start = OCAML4_YOUNG_START;

	if (caml_ml_domain_index) {
		state = caml_state;
		young_start = MEMPROF_DOMAIN_YOUNG_START;
	}
	return state && *(uint64_t *)(state + young_start) != 0;
}

/*
 * Every runtime since 4.11 calls this function when its heap exists and no OCaml code has run yet;
 * callbacks are legal there. It is the system call, as in the C library.
 */
__attribute__((visibility("default"))) int sigaltstack(const stack_t *stack, stack_t *before)
{
	long result = syscall(SYS_sigaltstack, stack, before);

	if (UNLIKELY(starting && heap_is_there())) {
		starting = 0;
		memprof_agent_poll();
	}
	return (int)result;
}

void memprof_share_forked(void)
{
	if (!memprof_share)
		return;
	memprof_share = NULL;
	starting = 0;
	memprof_activity.watchers = 0;
	make_private();
}
