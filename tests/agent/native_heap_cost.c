/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of pairs of malloc and free while the native heap is followed and while it is not,
 * alternating in one process. It simulates the program and its watcher; the agent's slots,
 * functions and sampler are the shipped ones. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "buffers.h"
#include "native_heap/native_heap.h"

__thread domain_state* caml_state;
int memprof_has_domains(void) { return 0; }

#ifndef ROUNDS
#define ROUNDS 400
#endif
#define PAIRS 20000
#define LIVE 4096

static double now_ns(void) {
  struct timespec time;

  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

uint64_t memprof_now_ns(void) { return (uint64_t)now_ns(); }

/* Allocates and frees one block of 64 bytes repeatedly. */
static double hot(void) {
  double begin = now_ns();

  for (int i = 0; i < PAIRS; i++) {
    void* volatile block = malloc(64);

    free(block);
  }
  return (now_ns() - begin) / PAIRS;
}

/* Blocks of 16 to 515 bytes; each is freed after 4,096 others were allocated. */
static double churn(void) {
  static void* live[LIVE];
  static unsigned at;
  double begin = now_ns();

  for (int i = 0; i < PAIRS; i++, at++) {
    free(live[at % LIVE]);
    live[at % LIVE] = malloc(16 + at * 2654435761u % 500);
  }
  return (now_ns() - begin) / PAIRS;
}

static int compare(const void* a, const void* b) {
  double difference = *(const double*)a - *(const double*)b;

  return (difference > 0) - (difference < 0);
}

static void measure(const char* name, double (*work)(void)) {
  static double off[ROUNDS], on[ROUNDS], more[ROUNDS];

  for (int i = 0; i < ROUNDS; i++) {
    memprof_c_heap_check(0);
    off[i] = work();
    memprof_c_heap.requested_generation++;
    memprof_c_heap_check(1);
    on[i] = work();
    more[i] = on[i] - off[i];
  }
  memprof_c_heap_check(0);
  qsort(off, ROUNDS, sizeof(double), compare);
  qsort(on, ROUNDS, sizeof(double), compare);
  qsort(more, ROUNDS, sizeof(double), compare);
  printf(
      "%s: least %.1f ns, followed %.1f ns; median %.1f ns, followed %.1f ns, of the differences "
      "%.1f ns\n",
      name, off[0], on[0], off[ROUNDS / 2], on[ROUNDS / 2], more[ROUNDS / 2]);
}

int main(void) {
  memprof_activity.watchers = 1;
  memprof_c_heap.requested_interval = 512 << 10;
  measure("hot pair", hot);
  measure("churn", churn);
  return 0;
}
