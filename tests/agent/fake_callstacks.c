/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callstacks of samples (agent-lib/callstacks.c, packed.c), laid out by hand as collections leave
 * them. For each it prints how many slots the agent finds and packs, and how many samples it has
 * counted as without a callstack. test_callstacks.py has the expected numbers.
 */
#include <stdio.h>
#include <string.h>

#include "buffers.h"
#include "callstacks.h"
#include "domains.h"
#include "packed.h"

#define SLOTS 7
#define MINOR_WORDS 64

static value minor[MINOR_WORDS], major[MINOR_WORDS];
static uint64_t descriptors[SLOTS]; /* return addresses */
static value state[8];
static int domains;

__thread domain_state* caml_state;
value caml_ml_domain_index(value unit) { return (void)unit, VAL_LONG(0); }
value caml_callback_exn(value closure, value argument) { return (void)closure, argument; }
value memprof_start_body(value unit) { return unit; }
int memprof_has_domains(void) { return domains; }
value memprof_profile_of(domain_state* state) { return (void)state, VAL_UNIT; }
int memprof_is_ours(value profile) { return (void)profile, 0; }

static value block(value* at, uint64_t words) {
  at[0] = (value)(words << 10);
  return (value)(at + 1);
}

static value callstack_at(value* at) {
  value callstack = block(at, SLOTS);

  for (int i = 0; i < SLOTS; i++) FIELD(callstack, i) = (value)(descriptors + i) | 1;
  return callstack;
}

static value info_at(value* at, value callstack) {
  value info = block(at, 4);

  FIELD(info, 0) = VAL_LONG(1);
  FIELD(info, 1) = VAL_LONG(300);
  FIELD(info, 2) = VAL_LONG(0);
  FIELD(info, 3) = callstack;
  return info;
}

static void say(const char* what, value info) {
  struct memprof_record record = {.size_words = 300, .n_samples = 1, .origin = MEMPROF_ALLOC_MINOR};
  value callstack = memprof_callstack_of(info);
  const uint32_t* words = memprof_buffers[0].packed.words;

  memprof_buffers[0].count = 0;
  memprof_agent_control.running_capture = MEMPROF_CAPTURE_BY_RUNTIME;
  record.sample_id = memprof_new_sample_id(0);
  memprof_packed_append(0, &record, callstack);
  printf("%s: slots=%llu packed=%u moved=%u\n", what,
         (unsigned long long)(FIELD(callstack, -1) >> 10), words[1] / MEMPROF_PACKED_NEW(1) % 512,
         memprof_agent_control.callstacks_moved);
}

static void of_ocaml4(void) {
  domains = 0;
  say("OCaml 4", info_at(minor, callstack_at(minor + 20)));
}

static void of_ocaml53(void) {
  value* top = minor + MINOR_WORDS;
  value callstack, info;

  domains = 1;
  say("right above", info_at(minor + 10, callstack_at(minor + 15)));
  say("of the major heap", info_at(minor + 10, callstack_at(major)));
  callstack = callstack_at(top - 1 - SLOTS);
  info = info_at(top - 5, callstack);
  say("left behind below", info);
  /* The next collection: header and first field of the moved record refer to its new place. */
  FIELD(info, -1) = 0;
  FIELD(info, 0) = (value)(major + 40);
  memcpy(major, top - 1 - SLOTS, (1 + SLOTS) * sizeof(value));
  say("left behind and moved", info_at(major + 40, (value)(major + 1)));
  say("none", info_at(minor + 10, VAL_UNIT));
}

static void of_ocaml54(void) {
  value info = (value)(minor + 31);

  memprof_agent_control.offsets.callstacks_stay = 1;
  say("5.4, below", info_at((value*)info - 1, callstack_at(minor + 20)));
  say("5.4, both moved", info_at(major + 40, callstack_at(major)));
}

static void of_no_slots(void) {
  value callstack = callstack_at(minor + 20);
  static const value none[] = {0, VAL_UNIT, VAL_LONG(300), 0x10000, INT64_MIN + 1};

  for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
    callstack = callstack_at(minor + 20);
    FIELD(callstack, i) = none[i];
    say("no slot", info_at(minor + 40, callstack));
  }
}

int main(void) {
  caml_state = (domain_state*)state;
  *(value*)(caml_state + MEMPROF_DOMAIN_YOUNG_START) = (value)minor;
  *(value*)(caml_state + MEMPROF_DOMAIN_YOUNG_END) = (value)(minor + MINOR_WORDS);
  of_ocaml4();
  of_ocaml53();
  of_ocaml54();
  of_no_slots();
  return 0;
}
