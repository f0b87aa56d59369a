/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent seeds the runtime's sampling generator (agent-lib/random.c), with generators that are
 * built here like those of the runtimes. It prints one line for each step; test_random.py has the
 * expected lines.
 */
#include <stdio.h>
#include <string.h>

#include "buffers.h"
#include "profiles.h"
#include "random.h"

#define STREAMS 64
#define MEMPROF_GENERATOR_WORDS (4 * STREAMS)
#define MEMPROF 40

struct memprof_agent_control memprof_agent_control;
__thread domain_state* caml_state;

/* OCaml 4: variables in one block, in the linker's layout. */
struct variables {
  void* young_trigger;
  uint64_t others[13];
  uint32_t generator[MEMPROF_GENERATOR_WORDS];
  char* state;
} variables __attribute__((aligned(32)));
__asm__(".globl caml_memprof_young_trigger\n.set caml_memprof_young_trigger, variables\n"
        ".globl Caml_state\n.set Caml_state, variables + 112 + 1024\n");

/* OCaml 5: Memprof's state of two domains. */
static struct kept {
  domain_state* state;
  uint64_t others[14];
  uint32_t generator[MEMPROF_GENERATOR_WORDS];
} kept[2];
static struct {
  uint64_t others[MEMPROF / 8];
  struct kept* memprof;
} states[2];
static int has_domains, samples, made;

uint64_t memprof_now_ns(void) { return 1; }

static void make(uint32_t* state, uint64_t seed) {
  for (unsigned i = 0; i < 2 * STREAMS; i++) {
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    uint32_t* words = state + i % 2 * 2 * STREAMS + i / 2;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    words[0] = (uint32_t)z;
    words[STREAMS] = (uint32_t)(z >> 32);
  }
}

int memprof_make_generator(void) {
  if (samples) return 0;
  if (!made) make(variables.generator, 42);
  made = 1;
  return 1;
}

static void seed(const char* what, const uint32_t* state) {
  uint32_t before[MEMPROF_GENERATOR_WORDS];
  unsigned changed = 0;

  memcpy(before, state, sizeof before);
  has_domains ? memprof_seed_domain() : memprof_seed_program();
  for (unsigned i = 0; i < MEMPROF_GENERATOR_WORDS; i++) changed += state[i] != before[i];
  printf("%s: %s\n", what, changed == 0 ? "kept" : changed > 250 ? "seeded" : "spoilt");
}

int main(void) {
  samples = 1;
  seed("the program samples", variables.generator);
  samples = 0;
  seed("OCaml 4", variables.generator);
  printf("unused: %d\n", memprof_is_unused_generator(variables.generator));
  seed("its next session", variables.generator);
  has_domains = 1;
  memprof_agent_control.offsets.memprof = MEMPROF;
  for (int domain = 0; domain < 2; domain++) {
    kept[domain].state = (domain_state*)&states[domain];
    states[domain].memprof = &kept[domain];
  }
  caml_state = kept[0].state;
  make(kept[0].generator, 7);
  seed("an unknown layout", kept[0].generator);
  memprof_agent_control.offsets.memprof_config = 64;
  kept[0].generator[200] ^= 1;
  seed("a domain whose generator has been used", kept[0].generator);
  caml_state = kept[1].state;
  make(kept[1].generator, 0xfedcba9876543210);
  seed("a domain whose generator has not", kept[1].generator);
  caml_state = kept[0].state;
  seed("the one before, as the place is proven", kept[0].generator);
  printf("alike: %d\n", !memcmp(kept[0].generator, kept[1].generator, sizeof kept[0].generator));
  return 0;
}
