/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of a program's modules, from its own runtime. */
#define CAML_INTERNALS
#define CAML_NAME_SPACE
#include <stdlib.h>

#include <caml/alloc.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/version.h>

extern value* caml_globals[];
extern value caml_obj_reachable_words(value of);

/* The first block of a module; the compilers of these programs give each module only one. */
static value block_of(value module) { return *caml_globals[Long_val(module)]; }

value heap_roots_modules(value unit) {
  long modules = 0;

  (void)unit;
  while (caml_globals[modules]) modules++;
  return Val_long(modules);
}

value heap_roots_place(value module) {
  return Val_long((char*)block_of(module) - (char*)caml_globals);
}

value heap_roots_fields(value module) { return Val_long(Wosize_val(block_of(module))); }

value heap_roots_field(value module, value field) {
  return Field(block_of(module), Long_val(field));
}

static value kept;

value heap_roots_keep(value what) {
  kept = what;
  caml_register_generational_global_root(&kept);
  return Val_unit;
}

#if OCAML_VERSION < 50000
/* This runtime counts only the heap. */
value heap_roots_heap_words(value of) { return caml_obj_reachable_words(of); }
#else
/* This runtime also counts static data of the program's file, so a separate walk skips it. */
#define STATIC 0x300

static struct {
  value* blocks; /* hash table by address, with open addressing; 0: empty */
  unsigned long room, count;
} seen;

static int is_new(value block) {
  unsigned long at = ((unsigned long)block >> 3) * 0x9e3779b97f4a7c15UL & (seen.room - 1);

  for (; seen.blocks[at]; at = (at + 1) & (seen.room - 1))
    if (seen.blocks[at] == block) return 0;
  seen.blocks[at] = block;
  if (++seen.count > seen.room / 2) abort(); /* these programs have fewer blocks */
  return 1;
}

static long walk(value from) {
  value* stack = malloc(seen.room * sizeof *stack);
  unsigned long left = 1;
  long words = 0;

  for (stack[0] = from; left > 0;) {
    value block = stack[--left];

    if (!Is_block(block)) continue;
    if (Tag_val(block) == Infix_tag) block -= Infix_offset_val(block);
    if ((Hd_val(block) & STATIC) == STATIC || !is_new(block)) continue;
    words += 1 + (long)Wosize_val(block);
    if (Tag_val(block) >= No_scan_tag) continue;
    mlsize_t i = Tag_val(block) == Closure_tag ? Start_env_closinfo(Closinfo_val(block)) : 0;
    for (; i < Wosize_val(block); i++)
      if (Is_block(Field(block, i)) && left < seen.room) stack[left++] = Field(block, i);
  }
  free(stack);
  return words;
}

value heap_roots_heap_words(value of) {
  long words;

  seen.room = 1 << 20;
  seen.count = 0;
  seen.blocks = calloc(seen.room, sizeof *seen.blocks);
  words = walk(of);
  free(seen.blocks);
  return Val_long(words);
}
#endif
