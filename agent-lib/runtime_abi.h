/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the OCaml 4.11-4.14 runtime that the agent uses. Every symbol is
 * weak: preloaded into a program that is not OCaml, the agent finds nulls and
 * does nothing.
 */
#ifndef MEMPROF_RUNTIME_ABI_H
#define MEMPROF_RUNTIME_ABI_H

#include <stdint.h>

typedef intptr_t value;

#define VAL_UNIT ((value)1)
#define VAL_LONG(n) ((value)(((uintptr_t)(n) << 1) | 1))
#define LONG_VAL(v) ((intptr_t)(v) >> 1)
#define FIELD(v, i) (((value *)(v))[i])
/* What caml_callback_exn returns when the callback raised. */
#define IS_EXCEPTION_RESULT(v) (((v)&3) == 2)

/* Black: the collector neither scans nor moves the block. */
#define STATIC_HEADER(words, tag) ((uint64_t)(words) << 10 | 0x300 | (tag))
#define CLOSURE_TAG 247
#define DOUBLE_TAG 253
/* Arity 1, environment starts after the two words of the closure. 4.11 has the arity
 * alone there, but neither looks at it when a closure is called from C. */
#define CLOSURE_INFO_ARITY_1 ((uint64_t)1 << 56 | 2 << 1 | 1)

#define WEAK __attribute__((weak))
extern value caml_memprof_start(value rate, value callstack_size, value tracker) WEAK;
extern value caml_memprof_stop(value unit) WEAK;
extern value caml_callback_exn(value closure, value argument) WEAK;
extern void (*caml_minor_gc_begin_hook)(void) WEAK;
extern void (*caml_minor_gc_end_hook)(void) WEAK;
extern void (*caml_major_slice_begin_hook)(void) WEAK;
extern void (*caml_major_slice_end_hook)(void) WEAK;
/* Only OCaml 5 has it. */
extern value caml_memprof_discard(value profile) WEAK;

#endif
