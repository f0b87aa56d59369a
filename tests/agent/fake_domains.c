/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's protocol for domains (agent-lib/domains.c) with a simulated runtime in one thread,
 * which decides what each domain does and when. It prints one line for each step;
 * test_domain_protocol.py has the expected lines.
 */
#include <stdio.h>
#include <string.h>

#include "buffers.h"
#include "domains.h"
#include "profiles.h"
#include "sections.h"
#include "session.h"
#include "share.h"
#include "snapshot.h"

#define DOMAINS 3
#define INTERRUPT 32
#define MEMPROF 40
#define WORDS 48
#define HEAP 72
#define CONFIG 64
#define CONFIG_FIELDS 9

struct fake_domain {
  uint64_t state[32], memprof[16];
  int blocked; /* its backup thread acts for it */
};

static struct fake_domain fakes[DOMAINS];
static unsigned current;
static value configs[128][1 + CONFIG_FIELDS];
static unsigned starts, discards;
static unsigned sections, ends_in; /* ends_in: section from which on the ending domain is gone */
static value tracker[1 + 5];

__thread domain_state* caml_state;
volatile uintptr_t caml_num_domains_running = DOMAINS;

static void enter(unsigned domain) {
  current = domain;
  caml_state = (domain_state*)fakes[domain].state;
}

static value* config_of(unsigned domain) { return (value*)((char*)fakes[domain].memprof + CONFIG); }

/* ------------------------------------------------------------------ the runtime */

static void no_hook(void) {}
void (*caml_domain_initialize_hook)(void) = no_hook;
void (*caml_domain_stop_hook)(void) = no_hook;
void (*caml_domain_external_interrupt_hook)(void) = no_hook;

value caml_ml_domain_index(value unit) { return (void)unit, VAL_LONG(current); }
value caml_ml_domain_id(value unit) { return (void)unit, VAL_LONG(current); }
int memprof_share_join(void) { return 0; }  // this process is not the child of a profiled one
void memprof_room_take_slot(void) {}  // the runtime never refuses a start
int memprof_share_is_of_another(void) { return 0; }
void memprof_share_begins_session(void) {}
void memprof_share_leave(void) {}
int caml_bt_is_self(void) { return fakes[current].blocked; }
void caml_interrupt_self(void) {}
void caml_set_action_pending(domain_state* state) { (void)state; }
void caml_reset_young_limit(domain_state* state) { (void)state; }
void caml_memprof_set_trigger(domain_state* state) { (void)state; }
caml_result caml_memprof_run_callbacks_res(void) { return (caml_result){0, VAL_UNIT}; }
void caml_register_generational_global_root(value* root) { (void)root; }
void caml_modify_generational_global_root(value* root, value to) { *root = to; }

int caml_try_run_on_all_domains(void (*handler)(domain_state*, void*, int, domain_state**),
                                void* data, void (*setup)(domain_state*)) {
  static domain_state* all[DOMAINS];
  unsigned leader = current;

  if (++sections == ends_in) caml_num_domains_running = DOMAINS;
  for (unsigned i = 0; i < DOMAINS; i++) all[i] = (domain_state*)fakes[i].state;
  if (setup) setup(caml_state);
  for (unsigned i = 0; i < DOMAINS; i++) {
    enter(i);
    handler(caml_state, data, DOMAINS, all);
  }
  enter(leader);
  return 1;
}

value caml_memprof_start(value rate, value size, value of) {
  value* config = configs[starts++] + 1;

  config[PROFILE_STATUS] = PROFILE_SAMPLING;
  config[1] = rate;
  config[3] = size;
  memcpy(config + PROFILE_ALLOC_MINOR, (value*)of, 5 * sizeof(value));
  *config_of(current) = (value)config;
  return (value)config;
}

value caml_memprof_stop(value unit) {
  FIELD(*config_of(current), PROFILE_STATUS) = PROFILE_STOPPED;
  return unit;
}

value caml_memprof_discard(value profile) {
  discards++;
  FIELD(profile, PROFILE_STATUS) = VAL_LONG(2);
  return VAL_UNIT;
}

value memprof_start_body(value unit);
value caml_callback_exn(value closure, value argument) {
  value now = *config_of(current);

  (void)closure;
  return memprof_is_sampling(now) ? 2 : memprof_start_body(argument);
}

/* ------------------------------------------------------------------ steps */

static int due; /* whether a session is due */

/* Same as in session.c. */
static void work(void) {
  if (!memprof_activity.sampling && !due) memprof_domains_forget();
}
static int is_due(void) { return due; }

static void say(const char* step) {
  printf("%s: starts=%u discards=%u cleared=%d program_stops=%llu conflicts=%llu\n", step, starts,
         discards, memprof_domains_cleared(),
         (unsigned long long)memprof_agent_control.program_stops,
         (unsigned long long)memprof_agent_control.conflicts);
}

static void hook(unsigned domain) {
  char step[32];

  enter(domain);
  caml_domain_external_interrupt_hook();
  enter(0);
  snprintf(step, sizeof step, "hook %u", domain);
  say(step);
}

static uint32_t generation;

static void begin(void) {
  memprof_agent_control.starts++;
  memprof_agent_control.running_generation = ++generation;
  memprof_agent_control.followed_since = memprof_discard_old_profiles(generation);
  memprof_activity.watchers = 1;
  memprof_activity.sampling = 1;
  memprof_domains_start();
}

static void stop(void) {
  memprof_activity.sampling = 0;
  memprof_domains_stop();
  say("stop");
}

static int copied;

static long copy(domain_state** domains, int count) {
  copied = count;
  return domains[count - 1] == (domain_state*)fakes[count - 1].state ? 4242 : 0;
}

static void copy_until(const char* step, uint64_t until_ns) {
  long child;

  sections = 0;
  copied = 0;
  child = memprof_copy_domains(copy, until_ns);
  printf("%s: child=%ld domains=%d sections=%u\n", step, child, copied, sections);
}

static void copy_all(const char* step) {
  copy_until(step, memprof_now_ns() + MEMPROF_SECTION_PATIENCE_NS);
}

static void copies(void) {
  copy_all("copy of all");
  copy_until("copy too late", 1);
  ends_in = 3;
  caml_num_domains_running = DOMAINS + 1;
  copy_all("copy while one ends");
  caml_num_domains_running = 1;
  copy_all("copy of one");
}

/* ------------------------------------------------------------------ sessions of session.c */

static void ask_for(double rate) {
  memprof_agent_control.requested_rate = rate;
  memprof_agent_control.requested_until_ns = UINT64_MAX;
  if (rate > 0) memprof_agent_control.requested_generation++;
}

static void hooks(void) {
  enter(0);
  memprof_domains_call_back();
  for (unsigned i = 0; i < DOMAINS; i++) {
    enter(i);
    caml_domain_external_interrupt_hook();
  }
  enter(0);
}

static void say_session(const char* step) {
  printf("%s: sampling=%d since=%u of=%u unsampled=%llu\n", step, memprof_activity.sampling,
         memprof_agent_control.followed_since, memprof_agent_control.running_generation,
         (unsigned long long)memprof_agent_control.unsampled_words);
}

static void sessions(void) {
  memprof_domains_load(memprof_session_work, memprof_session_due);
  memprof_activity.sampling = 0;
  memprof_domains_stop();
  hooks();
  discards = 0;
  memprof_agent_control.requested_generation = generation;
  ask_for(1e-3);
  hooks();
  say_session("first");
  ask_for(1e-2);
  printf("told while one is over: %d\n", memprof_session_follows());
  enter(0);
  memprof_domains_call_back();
  caml_domain_external_interrupt_hook();
  say_session("second");
  fakes[1].state[WORDS / 8] += 1000; /* this domain has not joined yet */
  hooks();
  fakes[1].state[WORDS / 8] += 500;
  say_session("all have joined");
  ask_for(0);
  enter(0);
  memprof_domains_call_back();
  caml_domain_external_interrupt_hook();
  say_session("none wanted");
  fakes[0].state[WORDS / 8] += 2000;
  printf("told while none is wanted: %d\n", memprof_session_follows());
  ask_for(1e-3);
  printf("told while one is due: %d\n", memprof_session_follows());
  hooks();
  say_session("third");
  hooks();
  say_session("all have joined it");
}

int main(void) {
  struct memprof_runtime_offsets offsets = {INTERRUPT, MEMPROF, CONFIG, WORDS, HEAP, 0, 0};

  for (unsigned i = 0; i < DOMAINS; i++) {
    fakes[i].state[MEMPROF / 8] = (uint64_t)fakes[i].memprof;
    *config_of(i) = VAL_UNIT;
  }
  tracker[1] = VAL_LONG(77);
  enter(0);
  memprof_agent_control.offsets = offsets;
  memprof_profiles_load((value)(tracker + 1), VAL_LONG(77));
  memprof_domains_load(work, is_due);
  printf("right place: %d\n", memprof_profile_place_is_right());
  memprof_agent_control.offsets.memprof_config += 8;
  printf("another place: %d\n", memprof_profile_place_is_right());
  memprof_agent_control.offsets = offsets;
  starts = discards = 0;

  begin();
  for (unsigned i = 0; i < DOMAINS; i++) hook(i);
  fakes[2].blocked = 1;
  stop();
  hook(0);
  hook(1);

  puts("the program stops one");
  fakes[2].blocked = 0;
  begin();
  for (unsigned i = 0; i < DOMAINS; i++) hook(i);
  enter(1);
  caml_memprof_stop(VAL_UNIT);
  memprof_domains_remind(0);
  hook(1);
  memprof_domains_remind(0);
  hook(1);

  puts("and one starts its own");
  enter(2);
  caml_memprof_stop(VAL_UNIT);
  tracker[1] = VAL_LONG(78);
  caml_memprof_start(VAL_UNIT, VAL_UNIT, (value)(tracker + 1));
  tracker[1] = VAL_LONG(77);
  memprof_domains_remind(0);
  hook(2);
  memprof_domains_remind(0);
  hook(2);
  enter(2);
  caml_memprof_stop(VAL_UNIT);
  memprof_domains_remind(0);
  hook(2);

  puts("one blocks and one ends while a stop waits for them");
  enter(0);
  stop();
  hook(0);
  fakes[1].blocked = 1;
  say("blocks 1");
  enter(2);
  caml_domain_stop_hook();
  enter(0);
  say("ends 2");

  puts("a session is due when one stops, again and again");
  fakes[1].blocked = 0;
  due = 1;
  for (int i = 0; i < MEMPROF_FOLLOWED_SESSIONS + 2; i++) {
    char step[32];

    begin();
    for (unsigned d = 0; d < DOMAINS; d++) hook(d);
    snprintf(step, sizeof step, "since %u of %u", memprof_agent_control.followed_since, generation);
    say(step);
    stop();
    for (unsigned d = 0; d < DOMAINS; d++) hook(d);
  }

  puts("and then it is not");
  memprof_domains_call_back();
  hook(0);
  due = 0;
  memprof_domains_call_back();
  hook(0);
  memprof_domains_call_back();
  hook(0);
  begin();
  printf("since %u of %u\n", memprof_agent_control.followed_since, generation);

  puts("as the watcher asks for them");
  sessions();

  puts("copies");
  copies();
  return 0;
}
