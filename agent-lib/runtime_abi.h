/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the OCaml runtimes that the agent uses. Every
 * symbol is weak: preloaded into a program that is not OCaml, the agent finds nulls
 * and does nothing.
 */
#ifndef MEMPROF_RUNTIME_ABI_H
#define MEMPROF_RUNTIME_ABI_H

#include <stdint.h>

#include "include/memprof_agent_abi.h"

typedef intptr_t value;

#define VAL_UNIT ((value)1)
#define VAL_FALSE ((value)1)
#define VAL_TRUE ((value)3)
#define VAL_LONG(n) ((value)(((uintptr_t)(n) << 1) | 1))
#define LONG_VAL(v) ((intptr_t)(v) >> 1)
#define IS_BLOCK(v) (((v)&1) == 0)
#define FIELD(v, i) (((value *)(v))[i])
#define WORDS_OF(v) (((uint64_t *)(v))[-1] >> 10)
/* Result of caml_callback_exn if the callback raised. */
#define IS_EXCEPTION_RESULT(v) (((v)&3) == 2)
#define EXCEPTION_RESULT ((value)2) /* same form, but no exception */

/* Black, in OCaml 5 not markable: the collector neither scans nor moves the block. */
#define STATIC_HEADER(words, tag) ((uint64_t)(words) << 10 | 0x300 | (tag))
#define CLOSURE_TAG 247
#define DOUBLE_TAG 253
/* Arity 1, environment starts after the two words of the closure. 4.11 has the arity
 * alone there, but neither looks at it when a closure is called from C. */
#define CLOSURE_INFO_ARITY_1 ((uint64_t)1 << 56 | 2 << 1 | 1)

#define WEAK __attribute__((weak))
extern value caml_memprof_start(value rate, value callstack_size, value tracker) WEAK;
extern value caml_callback_exn(value closure, value argument) WEAK;
extern void (*caml_minor_gc_begin_hook)(void) WEAK;
extern void (*caml_minor_gc_end_hook)(void) WEAK;
extern void (*caml_major_slice_begin_hook)(void) WEAK;
extern void (*caml_major_slice_end_hook)(void) WEAK;

extern value caml_memprof_stop(value unit) WEAK;
extern value caml_memprof_is_sampling(value unit) WEAK; /* where a start replaces a profile */
extern double caml_gc_minor_words_unboxed(void) WEAK;	/* allocated so far */

extern char *Caml_state WEAK; /* OCaml 4 only */

/* OCaml 5 only. The fields of a domain state are known by their offsets (memprof_domain_place,
 * memprof_runtime_offsets). */
typedef char domain_state;
extern __thread domain_state *caml_state WEAK;
extern value caml_ml_domain_index(value unit) WEAK;
extern value caml_ml_domain_id(value unit) WEAK;
extern int caml_bt_is_self(void) WEAK; /* true in a backup thread */
extern int caml_try_run_on_all_domains(void (*handler)(domain_state *, void *, int,
						       domain_state **),
				       void *data, void (*setup)(domain_state *)) WEAK;
extern volatile uintptr_t caml_num_domains_running WEAK;
extern volatile uintptr_t caml_minor_collections_count WEAK; /* incremented first */
extern void caml_interrupt_self(void) WEAK;
extern uintptr_t caml_heap_size(void *heap) WEAK; /* bytes */
extern void caml_set_action_pending(domain_state *) WEAK;
extern void caml_reset_young_limit(domain_state *) WEAK;
extern void caml_memprof_set_trigger(domain_state *) WEAK;
extern value caml_memprof_discard(value profile) WEAK;
typedef struct {
	int is_exception;
	value data;
} caml_result;
extern caml_result caml_memprof_run_callbacks_res(void) WEAK;
extern void caml_register_generational_global_root(value *) WEAK;
extern void caml_modify_generational_global_root(value *, value) WEAK;
extern void (*caml_domain_initialize_hook)(void) WEAK;
extern value (*caml_domain_initialize_hook_exn)(void) WEAK; /* instead; unit or an exception */
extern void (*caml_domain_stop_hook)(void) WEAK;
extern void (*caml_domain_external_interrupt_hook)(void) WEAK;
extern void caml_c_call(void) WEAK; /* OCaml 4 too; not to be called from C */
struct memprof_descriptor;
extern void *caml_get_frame_descrs(void) WEAK;
extern const struct memprof_descriptor *caml_find_frame_descr(void *table, uintptr_t) WEAK;

/* Other threads may call the hook at once, and then see everything that was stored before. */
static inline void memprof_set_hook(void (**hook)(void), void (*ours)(void))
{
	__atomic_store_n(hook, ours, __ATOMIC_RELEASE);
}

/* The profile that caml_memprof_start returns in OCaml 5 (runtime/memprof.c). */
#define PROFILE_STATUS 0
#define PROFILE_STACK_FRAMES 3
#define PROFILE_ALLOC_MINOR 4
#define PROFILE_SAMPLING VAL_LONG(0)
#define PROFILE_STOPPED VAL_LONG(1)

#endif
