/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates with malloc and related functions, and returns the requested bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Parts of caml/mlvalues.h and other headers, which some of these compilers lack. */
typedef intptr_t value;
typedef intptr_t intnat;
#define Val_long(n) ((value)((uintptr_t)(n) << 1 | 1))
#define Long_val(v) ((v) >> 1)
#define Val_bool(b) Val_long((b) != 0)
#define Bool_val(v) ((v) != 1)
#define Val_unit Val_long(0)
#define String_val(v) ((const char*)(v))
extern value caml_callback(value closure, value argument);
extern value caml_alloc_tuple(uintptr_t size);
extern void caml_enter_blocking_section(void);
extern void caml_leave_blocking_section(void);

/* Blocks that only C code keeps; each begins with the address of the previous one. */
static void** kept;

static long keep(size_t bytes) {
  void** block = malloc(bytes);

  *block = kept;
  kept = block;
  return (long)bytes;
}

value c_memory_keep(value n, value size) {
  long bytes = 0;

  for (long i = 0; i < Long_val(n); i++) bytes += keep((size_t)Long_val(size));
  return Val_long(bytes);
}

intnat c_memory_keep_noalloc(intnat size) { return keep((size_t)size); }
value c_memory_byte(value size) { return Val_long(keep((size_t)Long_val(size))); }

value c_memory_keep_blocking(value size) {
  size_t bytes = (size_t)Long_val(size);

  caml_enter_blocking_section();
  keep(bytes);
  caml_leave_blocking_section();
  return Val_long((long)bytes);
}

/* Allocates the five parts that deflateInit allocates, some of them zeroed. */
value c_memory_stream(value stays_open) {
  static const size_t sizes[] = {5936, 65536, 65536, 65536, 65536};
  void* parts[5];
  long bytes = 0;

  for (int i = 0; i < 5; i++) {
    parts[i] = i % 2 ? calloc(1, sizes[i]) : malloc(sizes[i]);
    bytes += (long)sizes[i];
  }
  if (!Bool_val(stays_open))
    for (int i = 4; i >= 0; i--) free(parts[i]);
  return Val_long(bytes);
}

/* A failed realloc leaves the block unchanged; the block is freed at the end. */
value c_memory_grow(value n) {
  char* block = malloc(100);
  long bytes = 100;

  memset(block, 'x', 100);
  for (long i = 0; i < Long_val(n); i++) {
    size_t size = 100 + (size_t)(i % 50) * 100;
    char* moved;

    if (realloc(block, (size_t)1 << 62) || errno != ENOMEM) abort();
    if (i % 2)
      moved = realloc(block, size);
    else
      moved = reallocarray(block, size / 100, 100);
    bytes += (long)size;
    block = moved;
    if (block[0] != 'x' || block[99] != 'x') abort();
  }
  free(block);
  return Val_long(bytes);
}

value c_memory_kinds(value unit) {
  void *parts[6], *resized;
  void (*volatile by_pointer)(void*) = free;

  (void)unit;
  parts[0] = malloc(1000);
  parts[1] = calloc(10, 100);
  parts[2] = aligned_alloc(64, 1024);
  if (posix_memalign(&parts[3], 128, 1000) != 0) abort();
  parts[4] = memalign(256, 1000);
  parts[5] = strdup("made by the C library, for which its own slots are");
  if (((uintptr_t)parts[2] & 63) != 0 || ((uintptr_t)parts[3] & 127) != 0 ||
      ((uintptr_t)parts[4] & 255) != 0)
    abort();
  resized = realloc(NULL, 1000);
  resized = realloc(resized, 2000);
  free(resized);
  for (int i = 0; i < 6; i++) i == 3 ? by_pointer(parts[i]) : free(parts[i]);
  free(NULL);
  return Val_long(8075);
}

/* Allocates and frees n blocks; returns the CPU time per block in nanoseconds. */
value c_memory_pairs(value n) {
  struct timespec begin, end;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  for (long i = 0; i < Long_val(n); i++) {
    void* volatile block = malloc(64);

    free(block);
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return Val_long(((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec) /
                  Long_val(n));
}

/* ---------------------------------------------------------------- blocks at the end of known paths
 */

static void take_and_free(size_t bytes) {
  char* volatile block = malloc(bytes); /* volatile: else the compiler would omit both calls */

  block[0] = 'p';
  free(block);
}

value c_memory_pass(value size) {
  take_and_free((size_t)Long_val(size));
  return Val_unit;
}

/* Called without a note of the runtime. */
value c_memory_pass_noalloc(value size) { return c_memory_pass(size); }

value c_memory_pass_blocking(value size) {
  size_t bytes = (size_t)Long_val(size);

  caml_enter_blocking_section();
  take_and_free(bytes);
  caml_leave_blocking_section();
  take_and_free(bytes);
  return Val_unit;
}

value c_memory_call(value function) {
  value result = caml_callback(function, Val_unit);

  take_and_free(40); /* after the callback: belongs to the caller, not to the callback */
  return result;
}

/* ---------------------------------------------------------------- blocks of known sizes */

static uint64_t state = 88172645463325252;

static uint64_t random_number(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static void* take(unsigned how, size_t bytes) {
  void* block = NULL;

  switch (how % 7) {
    case 0:
      return malloc(bytes);
    case 1:
      return calloc(1, bytes);
    case 2:
      return aligned_alloc(16, bytes);
    case 3:
      return posix_memalign(&block, 64, bytes) == 0 ? block : NULL;
    case 4:
      return memalign(32, bytes);
    case 5:
      return realloc(NULL, bytes);
    default:
      return reallocarray(NULL, bytes / 16, 16);
  }
}

struct batch {
  void* blocks[1000];
  int n;
};

static void* give_back(void* argument) {
  struct batch* batch = argument;

  while (batch->n > 0) free(batch->blocks[--batch->n]);
  return NULL;
}

static void by_another_thread(struct batch* batch) {
  pthread_t thread;

  if (pthread_create(&thread, NULL, give_back, batch) != 0 || pthread_join(thread, NULL) != 0)
    abort();
}

/* Allocates n blocks of 16 bytes to 64 KiB with all functions. A third stays, a third is freed by
 * another thread, a third by this one after a failed resize. Returns (allocated, kept bytes). */
value c_memory_known(value n) {
  static struct batch batch;
  long taken = 0, stay = 0;
  value answer;

  for (unsigned i = 0; i < (unsigned)Long_val(n); i++) {
    size_t bytes = ((size_t)16 << random_number() % 12) + (random_number() % 64) * 16;
    void** block = take(i / 3, bytes);

    if (!block) abort();
    taken += (long)bytes;
    if (i % 3 == 0) {
      stay += (long)bytes;
      *block = kept;
      kept = block;
    } else if (i % 3 == 1) {
      batch.blocks[batch.n++] = block;
      if (batch.n == 1000) by_another_thread(&batch);
    } else {
      if (realloc(block, (size_t)1 << 62)) abort();
      free(block);
    }
  }
  by_another_thread(&batch);
  answer = caml_alloc_tuple(2);
  ((value*)answer)[0] = Val_long(taken);
  ((value*)answer)[1] = Val_long(stay);
  return answer;
}

/* Keeps n blocks of 1,000 bytes for this time; then another thread frees them. */
value c_memory_hold(value n, value milliseconds) {
  struct batch batch = {.n = (int)Long_val(n)};

  for (int i = 0; i < batch.n; i++) batch.blocks[i] = malloc(1000);
  usleep((useconds_t)Long_val(milliseconds) * 1000);
  by_another_thread(&batch);
  return Val_long(1000 * Long_val(n));
}

/* Frees blocks through a pointer that the program has looked up itself. */
value c_memory_unseen(value n, value size) {
  void (*own_free)(void*) = (void (*)(void*))dlsym(RTLD_DEFAULT, "free");
  struct batch batch = {.n = 0};

  for (; batch.n < 1000 && batch.n < (int)Long_val(n); batch.n++) {
    batch.blocks[batch.n] = malloc((size_t)Long_val(size));
    *(char*)batch.blocks[batch.n] = 'u';
  }
  for (int i = 0; i < batch.n; i++) own_free(batch.blocks[i]);
  return Val_long(batch.n * Long_val(size));
}

static unsigned long done;
static void* passed[64];
static int churning;
static pthread_t churners[64];
static long n_churners;

/* Frees blocks in another thread than the one that allocated them. */
static void* churn(void* unused) {
  for (unsigned i = 0; __atomic_load_n(&churning, __ATOMIC_RELAXED); i++) {
    char* block = malloc(16 + i * 37 % 5000);
    char* other;

    block[0] = 'y';
    other = __atomic_exchange_n(&passed[i % 64], block, __ATOMIC_ACQ_REL);
    if (other && other[0] != 'y') abort();
    free(other);
    if (__atomic_add_fetch(&done, 1, __ATOMIC_RELAXED) % 256 == 0) usleep(200);
  }
  return unused;
}

value c_memory_threads(value n) {
  __atomic_store_n(&churning, 1, __ATOMIC_RELAXED);
  for (long i = 0; i < Long_val(n); i++)
    if (pthread_create(&churners[n_churners++], NULL, churn, NULL) != 0) abort();
  return Val_unit;
}

/* Ends the threads and frees the blocks that they have passed on, so that none of them is left. */
value c_memory_calm(value unit) {
  (void)unit;
  __atomic_store_n(&churning, 0, __ATOMIC_RELAXED);
  caml_enter_blocking_section();
  while (n_churners > 0) pthread_join(churners[--n_churners], NULL);
  caml_leave_blocking_section();
  for (unsigned i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
    free(passed[i]);
    passed[i] = NULL;
  }
  return Val_unit;
}

value c_memory_operations(value unit) {
  (void)unit;
  return Val_long((long)__atomic_load_n(&done, __ATOMIC_RELAXED));
}

static void* library;

value c_memory_load(value path) {
  library = dlopen(String_val(path), RTLD_LAZY);
  return Val_bool(library != NULL);
}

value c_memory_keep_in_library(value size) {
  long (*function)(long) = (long (*)(long))dlsym(library, "c_memory_library_keep");

  return Val_long(function(Long_val(size)));
}

value c_memory_unload(value unit) {
  (void)unit;
  dlclose(library);
  return Val_unit;
}

/* From now on, mprotect or a change of the signal mask kills the program. */
value c_memory_forbid(value unit) {
  static struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  static struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

  (void)unit;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    abort();
  return Val_unit;
}
