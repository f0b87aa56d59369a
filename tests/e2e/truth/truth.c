/* SPDX-License-Identifier: Apache-2.0 */
#include "truth.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent-lib/runtime_abi.h"

/* A slot is an address shifted right by one, as an OCaml integer; bit 1 of the
 * address distinguishes a debuginfo from a frame descriptor, whose first word is the
 * return address. */
static uint64_t slot_of(value slot) {
  uintptr_t address = (uintptr_t)LONG_VAL(slot) << 1;

  if (address & 2) return (address - 2) | TRUTH_DEBUGINFO;
  return *(const uint64_t*)address;
}

void memprof_truth_callstack(uint64_t sample_id, intptr_t callstack) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* domains call this concurrently */
  static FILE* file;
  uint64_t slots = *((const uint64_t*)callstack - 1) >> 10;
  uint64_t head[2] = {sample_id, slots};

  pthread_mutex_lock(&lock);
  if (!file) file = fopen(getenv("MEMPROF_TRUTH_FILE"), "w");
  if (!file) abort();
  fwrite(head, sizeof(head), 1, file);
  for (uint64_t i = 0; i < slots; i++) {
    uint64_t slot = slot_of(FIELD(callstack, i));

    fwrite(&slot, sizeof(slot), 1, file);
  }
  fflush(file);
  pthread_mutex_unlock(&lock);
}
