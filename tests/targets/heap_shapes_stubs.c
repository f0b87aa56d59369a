/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a program's own heap that Gc does not report, and faults of its copies. */
#define _GNU_SOURCE
#define CAML_INTERNALS
#define CAML_NAME_SPACE
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <caml/alloc.h>
#include <caml/domain_state.h>
#include <caml/mlvalues.h>
#include <caml/roots.h>
#include <caml/version.h>

/* Address of the state of the current domain. */
value heap_shapes_state(value unit) {
  char text[32];

  (void)unit;
  snprintf(text, sizeof text, "0x%lx", (unsigned long)Caml_state);
  return caml_copy_string(text);
}

/* Sleeps in C code without releasing the domain. */
value heap_shapes_hold(value milliseconds) {
  long left = Long_val(milliseconds);
  struct timespec time = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};

  while (nanosleep(&time, &time) != 0) continue;
  return Val_unit;
}

/* Shared with all copies: how many of them are still to fail, and whether they end or hang. */
static struct spoiling {
  int copies, hang;
}* spoiling;
static pid_t program;

static void spoil_copy(void) {
  if (getpid() == program || __atomic_fetch_sub(&spoiling->copies, 1, __ATOMIC_RELAXED) <= 0) return;
  while (spoiling->hang) pause();
  kill(getpid(), SIGKILL);
}

#if OCAML_VERSION < 50000
static void (*hook_before)(scanning_action);
static void hook(scanning_action action) {
  spoil_copy();
  if (hook_before) hook_before(action);
}
#else
static void (*hook_before)(scanning_action, scanning_action_flags, void*, caml_domain_state*);
static void hook(scanning_action action, scanning_action_flags flags, void* data, caml_domain_state* state) {
  spoil_copy();
  if (hook_before) hook_before(action, flags, data, state);
}
#endif

/* The next copies fail while they search for roots, as if a lock was held or a thread had ended. */
value heap_shapes_spoil(value copies, value hang) {
  if (!spoiling) {
    spoiling = mmap(0, sizeof *spoiling, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    program = getpid();
    hook_before = caml_scan_roots_hook;
    caml_scan_roots_hook = hook;
  }
  spoiling->hang = Bool_val(hang);
  spoiling->copies = Int_val(copies);
  return Val_unit;
}

#if OCAML_VERSION < 50000
#include <caml/gc.h>
#include <caml/major_gc.h>
#include <caml/minor_gc.h>

#define TAGS 256
#define SIZES 128

static unsigned long counts[TAGS][SIZES];

static int is_live(char* hp) {
  header_t header = Hd_hp(hp);

  if (Wosize_hd(header) == 0 || Color_hd(header) == Caml_blue) return 0;
  return Color_hd(header) != Caml_white || caml_gc_phase != Phase_sweep || hp < caml_gc_sweep_hp;
}

/* Walks the major heap with the runtime's own macros and writes a line for each tag and size,
 * TAG FIELDS BLOCKS, of live blocks with less than SIZES fields. Allocates nothing. */
value heap_shapes_walk(value path) {
  FILE* out = fopen(String_val(path), "w");

  for (int i = 0; i < TAGS * SIZES; i++) counts[i / SIZES][i % SIZES] = 0;
  for (char* chunk = caml_heap_start; chunk; chunk = Chunk_next(chunk)) {
    char* end = chunk + Chunk_size(chunk);

    for (char* hp = chunk; hp < end; hp += Bhsize_hd(Hd_hp(hp)))
      if (is_live(hp) && Wosize_hp(hp) < SIZES) counts[Tag_hp(hp)][Wosize_hp(hp)]++;
  }
  for (int tag = 0; tag < TAGS; tag++)
    for (int size = 0; size < SIZES; size++)
      if (counts[tag][size]) fprintf(out, "%d %d %lu\n", tag, size, counts[tag][size]);
  fclose(out);
  return Val_bool(caml_gc_phase == Phase_sweep);
}
#else
/* OCaml 5 does not allow programs to walk the heap. */
value heap_shapes_walk(value path) {
  (void)path;
  return Val_false;
}
#endif
