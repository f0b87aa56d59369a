// SPDX-License-Identifier: Apache-2.0
// To be preloaded: a malloc that is interrupted in all possible ways. LEAVES selects one:
//
//   stacks  a signal handler and a coroutine allocate on higher stacks, the handler also between
//   jumps   a signal handler jumps out of the call
//   ends    the thread ends
//   stays   once the file $LEAVES_STAY exists, a call waits for the file $LEAVES_GO, while a signal
//           handler allocates on a higher stack
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK (1 << 20)
#define BLOCK 20000

void *__libc_malloc(size_t bytes);
void __libc_free(void *block);

// Called in the middle of this thread's next call of malloc.
static __thread void (*leave)(void) __attribute__((tls_model("initial-exec")));
// The handler's block. The handler may have interrupted the C library's malloc, so cannot call it.
static char of_handler[BLOCK] __attribute__((aligned(16)));
static __thread int in_handler __attribute__((tls_model("initial-exec")));
static ucontext_t here, there;
static sigjmp_buf back;

void *malloc(size_t bytes) {
  void *block = in_handler ? of_handler : __libc_malloc(bytes);
  void (*now)(void) = leave;
  leave = NULL;
  if (now) now();
  return block;
}

void free(void *block) {
  if (block != of_handler) __libc_free(block);
}

static void take(void) {
  char *block = malloc(BLOCK);
  memset(block, 1, BLOCK);
  free(block);
}

// Clears `leave` meanwhile: a switch of stacks in the handler would allow a signal on its stack.
static void handle(int number) {
  void (*of_thread)(void) = leave;
  leave = NULL;
  in_handler = 1;
  take();
  in_handler = 0;
  leave = of_thread;
}

static void be_coroutine(void) {
  for (;;) {
    take();
    swapcontext(&there, &here);
  }
}

static void signal_oneself(void) { raise(SIGUSR1); }
static void change_stacks(void) { swapcontext(&here, &there); }
static void jump(int number) { siglongjmp(back, 1); }
static void end(void) { pthread_exit(NULL); }

static int is_there(const char *file) { return access(getenv(file), F_OK) == 0; }
static void stay(void) {
  while (!is_there("LEAVES_GO")) usleep(1000);
}

static void use_signal(void (*handler)(int)) {
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler, .sa_flags = SA_ONSTACK}, NULL);
}

static void use_stack(char *stack) {
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK}, NULL);
}

__attribute__((noreturn)) static void *on_stacks(void *above) {
  use_stack(above);
  getcontext(&there);
  there.uc_stack = (stack_t){.ss_sp = (char *)above + STACK, .ss_size = STACK};
  makecontext(&there, be_coroutine, 0);
  for (unsigned i = 0;; i++) {
    leave = i % 3 == 0 ? signal_oneself : i % 3 == 1 ? change_stacks : NULL;
    take();
  }
}

__attribute__((noreturn)) static void *with_jumps(void *above) {
  use_stack(above);
  for (;;) {
    if (sigsetjmp(back, 1)) continue;
    leave = signal_oneself;
    take();
  }
}

__attribute__((noreturn)) static void *with_a_stay(void *above) {
  use_stack(above);
  while (!is_there("LEAVES_STAY")) usleep(1000);
  leave = stay;
  for (;;) take();
}

static void *to_its_end(void *unused) {
  leave = end;
  take();
  return unused;
}

static pthread_t begin(void *(*run)(void *)) {
  static char *stacks;
  pthread_attr_t low;
  pthread_t thread;
  if (!stacks) stacks = mmap(NULL, 3 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_init(&low);
  pthread_attr_setstack(&low, stacks, STACK);
  pthread_create(&thread, &low, run, stacks + STACK);
  return thread;
}

static void *disturb(void *which) {
  use_signal(strcmp(which, "jumps") == 0 ? jump : handle);
  if (strcmp(which, "jumps") == 0) begin(with_jumps);
  const int stays = strcmp(which, "stays") == 0;
  if (stays || strcmp(which, "stacks") == 0) {
    const pthread_t thread = begin(stays ? with_a_stay : on_stacks);
    for (;;) {
      usleep(300);
      pthread_kill(thread, SIGUSR1);
    }
  }
  while (strcmp(which, "ends") == 0) pthread_join(begin(to_its_end), NULL);
  return NULL;
}

__attribute__((constructor)) static void start(void) {
  pthread_t thread;
  char *which = getenv("LEAVES");
  if (which) pthread_create(&thread, NULL, disturb, which);
}
