/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates native blocks, each with a different size, and writes the callstack of each to a file.
 * The C compiler's unwinder finds it with the tables of compilers (.eh_frame), which memprofd does
 * not read.
 *
 * A record of the file, in words of 8 bytes, innermost frame first:
 *   size | thread << 8 | leaf | enum end | n | n return addresses
 * The upper four bits of a return address are an enum where. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

/* Parts of caml/mlvalues.h and other headers, which some of these compilers lack. */
typedef intptr_t value;
#define Val_long(n) ((value)((uintptr_t)(n) << 1 | 1))
#define Val_unit Val_long(0)
#define String_val(v) ((const char*)(v))
extern value caml_callback(value closure, value argument);
extern void caml_enter_blocking_section(void);
extern void caml_leave_blocking_section(void);

/* Code that ocamlopt has compiled, and the runtime's own code in assembly within it. */
extern struct { char *begin, *end; } caml_code_segments[];
extern char caml_system__code_begin[], caml_system__code_end[];
extern char caml_runstack[] __attribute__((weak));

enum where { IN_OCAML, IN_RUNTIME, IN_C };
/* CUT_BY_THE_RUNTIME: in OCaml 5, during a callback from C code that a fiber has called, the
 * runtime has no link from that fiber to the frames outside of it. */
enum end { AT_THE_END, CUT_BY_THE_RUNTIME, TOO_EARLY };
enum leaf { NOTED, UNNOTED, UNLOCKED, LOCKED_AGAIN, WITH_MANY, AFTER_CALL };
#define MAX_FRAMES 2048

struct record {
  uint64_t bytes, thread_and_leaf, end, n, frames[MAX_FRAMES];
};

static FILE* file;
static unsigned long taken;

static enum where where(uint64_t address) {
  if (address > (uintptr_t)caml_system__code_begin && address <= (uintptr_t)caml_system__code_end)
    return IN_RUNTIME;
  for (int i = 0; caml_code_segments[i].begin; i++)
    if (address > (uintptr_t)caml_code_segments[i].begin &&
        address <= (uintptr_t)caml_code_segments[i].end)
      return IN_OCAML;
  return IN_C;
}

/* True if C has called back: frames of OCaml, then of C, then of OCaml again. */
static int has_called_back(const struct record* record) {
  int seen = 0;

  for (uint64_t i = 0; i < record->n; i++) {
    enum where at = record->frames[i] >> 60;

    if (at == IN_OCAML && seen == 2) return 1;
    if ((at == IN_OCAML && seen == 0) || (at == IN_C && seen == 1)) seen++;
  }
  return 0;
}

static _Unwind_Reason_Code add_frame(struct _Unwind_Context* context, void* argument) {
  struct record* record = argument;
  uint64_t address = _Unwind_GetIP(context);

  if (record->n == MAX_FRAMES) return _URC_NORMAL_STOP;
  record->frames[record->n++] = address | (uint64_t)where(address) << 60;
  if (caml_runstack && _Unwind_GetRegionStart(context) == (uintptr_t)caml_runstack &&
      has_called_back(record)) {
    record->end = CUT_BY_THE_RUNTIME;
    return _URC_NORMAL_STOP;
  }
  return _URC_NO_REASON;
}

/* Keeps the result off the stack, because memprofd might find the return addresses there. */
static __attribute__((noinline)) void write_truth(size_t bytes, enum leaf leaf) {
  static __thread struct record record;
  size_t head = offsetof(struct record, frames);

  record.bytes = bytes;
  record.thread_and_leaf = (uint64_t)syscall(SYS_gettid) << 8 | leaf;
  record.n = 0;
  record.end = TOO_EARLY;
  if (_Unwind_Backtrace(add_frame, &record) == _URC_END_OF_STACK) record.end = AT_THE_END;
  if (fwrite(&record, head + record.n * sizeof(record.frames[0]), 1, file) != 1) abort();
}

/* Blocks are so large that each is sampled, and have odd sizes, which no other code requests. */
static __attribute__((noinline)) void take(enum leaf leaf) {
  size_t bytes = 20001 + 2 * __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
  void* volatile block;

  if (!file) return;
  block = malloc(bytes);
  write_truth(bytes, leaf);
  free(block);
}

value c_stacks_take(value unit) {
  take(NOTED);
  return unit;
}

value c_stacks_take_noalloc(value unit) {
  take(UNNOTED);
  return unit;
}

value c_stacks_take_unlocked(value unit) {
  caml_enter_blocking_section();
  take(UNLOCKED);
  caml_leave_blocking_section();
  take(LOCKED_AGAIN);
  return unit;
}

/* Has more arguments than fit into registers. */
value c_stacks_take_many(value a, value b, value c, value d, value e, value f, value g, value h) {
  take(WITH_MANY);
  return a + b + c + d + e + f + g + h - 8 * Val_long(1) + Val_unit;
}

value c_stacks_byte(value* arguments, int n) {
  (void)n;
  return arguments[0];
}

value c_stacks_call(value function) {
  value result = caml_callback(function, Val_unit);

  take(AFTER_CALL); /* belongs to the caller, not to the callback */
  return result;
}

value c_stacks_begin(value path) {
  file = fopen(String_val(path), "w");
  if (!file || setvbuf(file, NULL, _IOFBF, 1 << 20) != 0) abort();
  return Val_unit;
}

value c_stacks_end(value unit) {
  if (fclose(file) != 0) abort();
  file = NULL;
  return unit;
}

value c_stacks_taken(value unit) {
  (void)unit;
  return Val_long(__atomic_load_n(&taken, __ATOMIC_RELAXED));
}
