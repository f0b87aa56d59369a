/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates a sampled program: prints the sampler's estimate for known blocks, and whether the
 * table of blocks loses or invents any when it is full. */
#include <stdio.h>
#include <stdlib.h>

#include "include/memprof_native_heap_abi.h"
#include "native_heap/sampled_blocks.c"
#include "native_heap/sampler.h"

#define INTERVAL 10000.0

/* Probability that none of this many bytes is sampled. */
static double none_of(uint64_t bytes) {
  double result = 1, power = 1 - 1 / INTERVAL;

  for (; bytes != 0; bytes >>= 1, power *= power) result *= bytes & 1 ? power : 1;
  return result;
}

static void say_estimate(void) {
  double truth = 0, estimate = 0;
  uint64_t i;

  memprof_c_sampler_set((uint64_t)INTERVAL);
  memprof_c_session = 1;
  for (i = 0; truth < 1e8; i++) {
    uint64_t bytes = 1 + i * 7919 % 8191;
    uint32_t n = memprof_c_passes(bytes) ? 0 : memprof_c_samples(bytes);

    truth += (double)bytes;
    if (n != 0 && bytes < MEMPROF_NATIVE_HEAP_ONE_SAMPLE)
      estimate += n * INTERVAL;
    else if (n != 0)
      estimate += (double)bytes / (1 - none_of(bytes));
  }
  memprof_c_session = 0;
  printf("truth=%.0f\nestimate=%.0f\n", truth, estimate);
}

/* Looks a block up as free does. */
static uint64_t taken(const void* block) {
  return memprof_may_be_sampled(block) ? memprof_sampled_take(block) : 0;
}

#define BLOCKS 100000 /* enough blocks per region to saturate its count */

static void say_blocks(void) {
  static char memory[BLOCKS][16];
  static char there[BLOCKS];
  unsigned lost = 0, wrong = 0, refused = 0, left = 0, i, round;

  for (round = 0; round < 3; round++) {
    for (i = 0; i < BLOCKS; i++) {
      there[i] = memprof_sampled_add(memory[i], i + 1);
      refused += !there[i];
    }
    for (i = 0; i < BLOCKS; i++) {
      uint64_t number = taken(memory[i]);

      lost += there[i] && number == 0;
      wrong += number != 0 && number != i + 1;
    }
  }
  for (i = 0; i < BLOCKS; i++) left += memprof_sampled_take(memory[i]) != 0;
  printf("lost=%u\nwrong=%u\nrefused=%u\nleft=%u\n", lost, wrong, refused, left);
}

/* Address of one of the blocks, which are scattered over 100 MB. */
enum { SAMPLED = 200, EACH = 512 << 10, PAGE = 4096 };
static const char* const far = (const char*)0x7f0000000000;
static const char* far_block(size_t i) { return far + i * EACH + i * 2654435761u % EACH / 16 * 16; }

static void say_told_apart(void) {
  unsigned missed = 0, slow = 0, regions = 0, i;

  memprof_sampled_clear();
  for (i = 0; i < SAMPLED; i++) memprof_sampled_add(far_block(i), i + 1);
  for (i = 0; i < SAMPLED * (EACH / PAGE); i++)
    slow += (unsigned)memprof_may_be_sampled(far + (size_t)i * PAGE);
  for (i = 0; i < SAMPLED; i++) missed += taken(far_block(i)) != i + 1;
  for (i = 0; i < SAMPLED_REGIONS; i++) regions += memprof_sampled_regions[i] != 0;
  printf("missed=%u\nslow=%f\nregions=%u\n", missed, slow / (SAMPLED * (EACH / (double)PAGE)),
         regions);
}

/* The table is cleared while a block is being added: a block added later gets another place. */
static void say_forgotten(void) {
  static char memory[2];
  struct sampled* at = place(hash_of(&memory[0]), 0);
  unsigned claimed = (unsigned)claim(at), i;

  memprof_sampled_clear();
  for (i = 0; i < MAX_PLACES; i++) claimed += (unsigned)claim(place(hash_of(&memory[0]), i));
  printf("claimed=%u\n", claimed);
}

int main(void) {
  say_estimate();
  say_blocks();
  say_told_apart();
  say_forgotten();
  return 0;
}
