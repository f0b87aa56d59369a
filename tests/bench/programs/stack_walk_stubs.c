/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's walk of OCaml 4 stacks and the runtime's walk, both applied to the caller's stack. */
#define CAML_NAME_SPACE
#include <caml/alloc.h>
#include <caml/domain_state.h>
#include <caml/mlvalues.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "agent-lib/walk/delta_walk.h"

extern const struct memprof_descriptor *const *caml_frame_descriptors;
extern uint64_t caml_frame_descriptors_mask;
extern intnat caml_collect_current_callstack(value **buffer, intnat *length, intnat most, int allocation);

static struct memprof_stack stack;
static value *buffer;
static intnat buffer_length;

static double thread_ns(void) {
  struct timespec now;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void walk(void) {
  struct memprof_frame_table table = {caml_frame_descriptors, caml_frame_descriptors_mask};
  uint64_t sp = (uint64_t)Caml_state->bottom_of_stack, pc = Caml_state->last_return_address;

  if (memprof_walk_stack(&stack, &table, sp, pc) != MEMPROF_WALK_WHOLE) abort();
}

static void forget_innermost(uint32_t anew) { stack.count -= anew < stack.count ? anew : stack.count; }

value bench_frames(value unit) {
  uint32_t frames = 0;

  (void)unit;
  walk();
  for (uint32_t i = 0; i < stack.count; i++) frames += memprof_slot_kind(&stack.slots[i]) == MEMPROF_SLOT_FRAME;
  if (caml_collect_current_callstack(&buffer, &buffer_length, INTPTR_MAX, -1) != (intnat)frames) abort();
  return Val_long(frames);
}

value bench_delta_walk(value anew, value times) {
  double begin = thread_ns();

  for (intnat i = 0; i < Long_val(times); i++) {
    forget_innermost((uint32_t)Long_val(anew));
    walk();
  }
  return caml_copy_double((thread_ns() - begin) / (double)Long_val(times));
}

value bench_runtime_walk(value anew, value times) {
  double begin = thread_ns();

  (void)anew;
  for (intnat i = 0; i < Long_val(times); i++)
    caml_collect_current_callstack(&buffer, &buffer_length, INTPTR_MAX, -1);
  return caml_copy_double((thread_ns() - begin) / (double)Long_val(times));
}
