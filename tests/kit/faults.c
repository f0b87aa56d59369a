/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into memprofd by make soak and by tests. A shared file controls it: the clock of
 * the day can differ from the machine's, and one of N calls that allocate kernel memory fails with
 * ENOMEM. Calls of malloc never fail, because that would end a C++ program. Thread creation has its
 * own N, and fails as at a limit; the first threads may be exempt. Closing a BPF link takes as long as the file says, as on kernels
 * with long grace periods.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* tests/kit/faults.py writes it. */
struct faults {
  _Atomic int64_t clock_offset_seconds;
  _Atomic uint64_t one_of; /* 0: none fails */
  _Atomic uint64_t calls;  /* that might have failed */
  _Atomic uint64_t failed;
  _Atomic uint64_t threads_one_of;
  _Atomic uint64_t threads;
  _Atomic uint64_t threads_failed;
  _Atomic int64_t threads_left; /* that start before one of threads_one_of fails */
  _Atomic uint64_t links_stay; /* not 0: closing a link waits */
  _Atomic uint64_t links_waited_for;
};

static struct faults nothing;
static struct faults* faults = &nothing;

__attribute__((constructor)) static void map_faults(void) {
  const char* path = getenv("MEMPROFD_FAULTS");
  const int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
  void* at = file < 0 ? MAP_FAILED
                      : (void*)syscall(SYS_mmap, NULL, sizeof(struct faults),
                                       PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

  if (at == MAP_FAILED) abort();
  close(file);
  faults = at;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* True if this call has to fail. */
static int is_one(uint64_t one_of, _Atomic uint64_t* calls, _Atomic uint64_t* failed) {
  if (one_of == 0 || (*calls)++ % one_of != 0) return 0;
  (*failed)++;
  return 1;
}

static int fails(void) {
  if (!is_one(faults->one_of, &faults->calls, &faults->failed)) return 0;
  errno = ENOMEM;
  return 1;
}

/* ------------------------------------------------------------ the clock */

static int is_of_the_day(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  static __typeof__(&clock_gettime) next;

  if (next == NULL) next = NEXT(clock_gettime);
  if (next(clock, now) != 0) return -1;
  if (is_of_the_day(clock)) now->tv_sec += faults->clock_offset_seconds;
  return 0;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec precise;

  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  struct timespec now;

  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}

/*
 * The kernel waits by the machine's clock. Waits that began before the clock stepped continue.
 * Uptimes are below a billion seconds; larger times are of the day.
 */
static const struct timespec* by_machine(const struct timespec* until, struct timespec* room) {
  if (until == NULL || until->tv_sec < 1000000000) return until;
  *room = *until;
  room->tv_sec -= faults->clock_offset_seconds;
  if (room->tv_sec < 0) room->tv_sec = 0;
  return room;
}

int pthread_cond_timedwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict until) {
  struct timespec room;

  return NEXT(pthread_cond_timedwait)(condition, mutex, by_machine(until, &room));
}

/* ------------------------------------------------------------ memory */

void* mmap(void* at, size_t bytes, int rights, int flags, int file, off_t offset) {
  /* Allocators (malloc's, Abseil's) ask without a file. */
  return file >= 0 && fails() ? MAP_FAILED : NEXT(mmap)(at, bytes, rights, flags, file, offset);
}

void* mmap64(void* at, size_t bytes, int rights, int flags, int file, off_t offset) {
  return mmap(at, bytes, rights, flags, file, offset);
}

int memfd_create(const char* name, unsigned int flags) {
  return fails() ? -1 : NEXT(memfd_create)(name, flags);
}

int socketpair(int domain, int type, int protocol, int ends[2]) {
  return fails() ? -1 : NEXT(socketpair)(domain, type, protocol, ends);
}

int eventfd(unsigned int value, int flags) { return fails() ? -1 : NEXT(eventfd)(value, flags); }

pid_t fork(void) { return fails() ? -1 : NEXT(fork)(); }

/* ------------------------------------------------------------ threads */

int pthread_create(pthread_t* restrict thread, const pthread_attr_t* restrict attributes,
                   void* (*begin)(void*), void* restrict argument) {
  static __typeof__(&pthread_create) next;

  if (faults->threads_one_of != 0 && faults->threads_left-- <= 0 &&
      is_one(faults->threads_one_of, &faults->threads, &faults->threads_failed))
    return EAGAIN;
  if (next == NULL) next = NEXT(pthread_create);
  return next(thread, attributes, begin, argument);
}

/* ------------------------------------------------------------ links */

static int is_link(int file) {
  static const char kLink[] = "anon_inode:bpf_link";
  char name[32], target[sizeof(kLink)];

  snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
  return readlink(name, target, sizeof(target)) == sizeof(kLink) - 1 &&
         memcmp(target, kLink, sizeof(kLink) - 1) == 0;
}

/* The link has no effect any more by then: its breakpoint is removed. */
int close(int file) {
  static __typeof__(&close) next;
  const int waits = faults->links_stay != 0 && is_link(file);
  const struct timespec moment = {.tv_nsec = 20000000};
  int result;

  if (next == NULL) next = NEXT(close);
  result = next(file);
  if (waits) faults->links_waited_for++;
  while (waits && faults->links_stay != 0) nanosleep(&moment, NULL);
  return result;
}

/* ------------------------------------------------------------ all other system calls */

/* libbpf creates maps, and loads and attaches programs, by these calls. */
long syscall(long number, ...) {
  static __typeof__(&syscall) next;
  struct timespec room;
  va_list list;
  long a[6];
  int i;

  if (next == NULL) next = NEXT(syscall);
  va_start(list, number);
  for (i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  if ((number == SYS_bpf || number == SYS_perf_event_open) && fails()) return -1;
  if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) != 0)
    a[3] = (long)by_machine((const struct timespec*)a[3], &room);
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
