/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's access to the runtime's tables of sampled blocks (agent-lib/tracked_entries.c), with
 * simulated tables and a simulated minor heap. It prints one line for each step;
 * test_tracked_entries.py has the expected lines.
 */
#include <stdio.h>
#include <string.h>

#include "batch.h"
#include "profiles.h"
#include "tracked_entries.h"

#define MEMPROF 40
#define ENTRIES 8
#define MINOR_WORDS 64

enum { BLOCK, USER_DATA, SAMPLES, WORDS, RUNNER, FLAGS, ENTRY_WORDS };
enum {
  ENTRY_ARRAY = 1,
  CAPACITY = 3,
  SIZE,
  YOUNG,
  EVICT,
  ACTIVE,
  PROFILE,
  ORPHANS,
  THREADS = 11,
  CURRENT
};
enum { RUNNING_INDEX = 1, RUNNING_TABLE, THREAD_DOMAIN = 11 };

struct memprof_agent_control memprof_agent_control;
__thread domain_state* caml_state;
volatile uintptr_t caml_num_domains_running = 2;
volatile uintptr_t caml_minor_collections_count;

static uint64_t state[8], domain[16], thread[16], minor[MINOR_WORDS],
    entries[ENTRIES * ENTRY_WORDS];
static uint64_t old_block[2];
static value profile[1 + 9];
static int waits, is_ours = 1;

uint32_t memprof_domain_index(void) { return 3; }
int caml_bt_is_self(void) { return waits; }
int memprof_is_ours(value of) { return of == (value)(profile + 1) && is_ours; }
void memprof_append_follow(uint32_t of, value id, enum memprof_record_kind kind) {
  printf("told: domain %u, block %ld, kind %d\n", of, (long)LONG_VAL(id), kind);
}

static uint64_t* entry(unsigned i) { return &entries[i * ENTRY_WORDS]; }
static value young(unsigned i) { return (value)&minor[4 * i + 1]; }

/* Entries of blocks of three fields in the minor heap, whose allocation callbacks have all run. */
static void make(unsigned count) {
  memset(entries, 0, sizeof entries);
  memset(domain, 0, sizeof domain);
  memset(thread, 0, sizeof thread);
  memprof_agent_control.offsets.memprof = MEMPROF;
  memprof_agent_control.offsets.memprof_config = 64;
  memprof_agent_control.uncertain_deaths = 0;
  *(uint64_t**)((char*)state + MEMPROF) = domain;
  state[MEMPROF_DOMAIN_YOUNG_START / 8] = state[MEMPROF_DOMAIN_YOUNG_PTR / 8] = (uint64_t)minor;
  state[MEMPROF_DOMAIN_YOUNG_END / 8] = (uint64_t)(minor + MINOR_WORDS);
  caml_state = (domain_state*)state;
  profile[1] = PROFILE_SAMPLING;
  domain[0] = (uint64_t)state;
  domain[ENTRY_ARRAY] = (uint64_t)entries;
  domain[CAPACITY] = ENTRIES;
  domain[SIZE] = domain[EVICT] = domain[ACTIVE] = count;
  domain[PROFILE] = (uint64_t)(profile + 1);
  domain[THREADS] = domain[CURRENT] = (uint64_t)thread;
  thread[THREAD_DOMAIN] = (uint64_t)domain;
  for (unsigned i = 0; i < count; i++) {
    minor[4 * i] = 3 << 10;
    entry(i)[BLOCK] = (uint64_t)young(i);
    entry(i)[USER_DATA] = (uint64_t)VAL_LONG(100 + i);
    entry(i)[FLAGS] = 1 << 3 | 1 << 9;
  }
}

static void begin(void) {
  caml_minor_collections_count++;
  memprof_entries_begin_collection();
}

static void promote(unsigned i) {
  minor[4 * i] = 0;
  minor[4 * i + 1] = (uint64_t)&old_block[1];
}

/* The runtime takes a block that is not promoted yet for dead, and ends the collection. */
static void take_for_dead(unsigned i) {
  entry(i)[BLOCK] = (uint64_t)VAL_UNIT;
  entry(i)[FLAGS] |= 1 << 5;
  if (domain[ACTIVE] > i) domain[ACTIVE] = i;
  domain[YOUNG] = domain[SIZE];
  state[MEMPROF_DOMAIN_YOUNG_PTR / 8] = state[MEMPROF_DOMAIN_YOUNG_END / 8];
}

static void say(const char* step, unsigned count) {
  printf("%s:", step);
  for (unsigned i = 0; i < count; i++) {
    uint64_t flags = entry(i)[FLAGS];
    printf(" %s%s%s",
           flags & 1 << 4   ? "promoted"
           : flags & 1 << 5 ? "dead"
                            : "young",
           flags & 1 << 6 ? " deleted" : "",
           entry(i)[BLOCK] == (uint64_t)&old_block[1] ? " moved" : "");
  }
  printf("; %llu uncertain\n", (unsigned long long)memprof_agent_control.uncertain_deaths);
}

/* Three blocks: one is promoted late, one dies, one is promoted in time. */
static void collect(void) {
  make(3);
  begin();
  take_for_dead(0);
  take_for_dead(1);
  promote(0);
  promote(2);
  entry(2)[BLOCK] = (uint64_t)&old_block[1];
  entry(2)[FLAGS] |= 1 << 4;
}

static void mends(void) {
  collect();
  memprof_entries_mend();
  say("mended in a callback", 3);
  collect();
  begin();
  say("mended in the next collection", 3);
  collect();
  caml_minor_collections_count++; /* a collection without the hook */
  begin();
  say("a collection later nothing is known", 3);
  collect();
  state[MEMPROF_DOMAIN_YOUNG_PTR / 8] = (uint64_t)minor; /* new blocks overwrite the minor heap */
  memprof_entries_mend();
  say("overwritten", 3);
  collect();
  minor[1] = 0;
  memprof_entries_mend();
  say("no address", 3);
  collect();
  entry(0)[USER_DATA] = (uint64_t)VAL_LONG(7);
  memprof_entries_mend();
  say("another block's entry", 3);
  collect();
  is_ours = 0;
  memprof_entries_mend();
  say("another's profile", 3);
  is_ours = 1;
  collect();
  domain[CAPACITY] = 1;
  memprof_entries_mend();
  say("unknown layout", 3);
  caml_num_domains_running = 1;
  collect();
  memprof_entries_mend();
  say("alone", 3);
  caml_num_domains_running = 2;
}

/* Runs the agent within the callback of entry i. */
static void call_back(unsigned i) {
  collect();
  thread[RUNNING_TABLE] = (uint64_t)(domain + ENTRY_ARRAY);
  thread[RUNNING_INDEX] = i;
  entry(i)[RUNNER] = (uint64_t)thread;
  entry(i)[USER_DATA] = (uint64_t)VAL_UNIT;
  entry(i)[FLAGS] |= 1 << 11;
  printf("lives: %d\n", memprof_entry_lives());
  printf("to be called back for its death: %d\n", !(entry(i)[FLAGS] & 1 << 11));
  say("afterwards", 3);
}

static void tells(void) {
  waits = 1;
  collect();
  begin();
  say("a domain that waits", 3);
  printf("evict %lu\n", domain[EVICT]);
  begin();
  say("once", 3);
  collect();
  entry(1)[FLAGS] |= 1 << 4;
  entry(1)[RUNNER] = (uint64_t)thread;
  begin();
  say("while a callback runs", 3);
  entry(1)[RUNNER] = 0;
  begin();
  say("then", 3);
}

int main(void) {
  mends();
  call_back(0);
  call_back(1);
  tells();
  return 0;
}
