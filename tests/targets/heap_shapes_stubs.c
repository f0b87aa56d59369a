/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a program's own heap that Gc does not report. */
#define CAML_INTERNALS
#define CAML_NAME_SPACE
#include <stdio.h>
#include <time.h>

#include <caml/alloc.h>
#include <caml/domain_state.h>
#include <caml/mlvalues.h>
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
