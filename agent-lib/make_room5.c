/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml 5.3 and 5.4: the program starts a tracker while a session runs. caml_memprof_start then
 * raises "already started", which it would not do without the agent. Before raising, the runtime
 * measures the exception's text with strlen of the C library. The slot for that call holds our
 * function, which stops our profile in this domain and repeats the start. The program continues as
 * after a successful start. The domain joins the session again when the program has stopped its
 * tracker (domains.c), as in runtimes where a start replaces our profile.
 *
 *   OCaml code -> caml_c_call -> caml_memprof_start -> caml_failwith -> ... -> strlen = ours
 *                     ^                                                          |
 *                     +------------------------- profile ------------------------+
 *
 * The C functions in between are abandoned as caml_raise abandons them: only their local roots are
 * undone. That is correct only if OCaml code itself calls caml_memprof_start. If C code calls it
 * (as the agent does), the runtime raises as it would without us.
 *
 * The slot belongs to the file that contains the runtime. It is patched once and stays patched. A
 * static program has no such slot, and if a page has to be opened to patch it, the watcher may
 * forbid that (local_roots); in both cases the start raises.
 */
#define _GNU_SOURCE
#include <string.h>

#include "buffers.h"
#include "domains.h"
#include "make_room5.h"
#include "native_heap/elf_object.h"
#include "native_heap/linker.h"
#include "native_heap/native_heap.h"
#include "native_heap/slots.h"
#include "profiles.h"
#include "refused_start.h"

typedef size_t measure(const char *);

/* caml_c_call up to the end of its call: switches from OCaml's stack, current_stack(%r14), to the C
 * stack, c_stack(%r14). */
static const uint8_t call_code[] = {
	0x4d, 0x8b, 0x56, MEMPROF_DOMAIN_CURRENT_STACK, /* mov  current_stack(%r14), %r10 */
	0x49, 0x89, 0x22,				/* mov  %rsp, (%r10) */
	0x4d, 0x8b, 0x5e, MEMPROF_DOMAIN_C_STACK,	/* mov  c_stack(%r14), %r11 */
	0x49, 0x89, 0x63, 0x08,				/* mov  %rsp, 8(%r11) */
	0x4d, 0x89, 0x13,				/* mov  %r10, (%r11) */
	0x4c, 0x89, 0xdc,				/* mov  %r11, %rsp */
	0x4d, 0x89, 0x7e, MEMPROF_DOMAIN_YOUNG_PTR,	/* mov  %r15, young_ptr(%r14) */
	0xff, 0xd0,					/* call *%rax */
};

/* At c_stack: struct c_stack_link of runtime/caml/fiber.h. */
struct c_stack_link {
	uint64_t stack;
	uint64_t sp; /* of OCaml's stack; points to the return address */
};

/* Continues in caml_c_call after its call, with this result. */
extern void memprof_stub5_return(value result, domain_state *state, uint64_t pc)
	__attribute__((noreturn));

static measure *real_strlen;

/* ------------------------------------------------------------------ a start that is refused */

static struct local_roots **local_roots(void)
{
	return (struct local_roots **)(caml_state + memprof_agent_control.offsets.local_roots);
}

static const struct c_stack_link *c_stack(void)
{
	return *(const struct c_stack_link **)(caml_state + MEMPROF_DOMAIN_C_STACK);
}

/* Returns the roots of caml_memprof_start if it is the function that raises, otherwise null. */
static const struct local_roots *refused_start(void)
{
	const struct c_stack_link *link = c_stack();
	const struct local_roots *roots = *local_roots();
	uint64_t end = (uint64_t)link;

	/* The exception's, in caml_exception_with_string. */
	if (!memprof_are_roots_of(roots, 1, end) || *roots->table[0] != (value)&caml_exn_Failure)
		return 0;
	roots = roots->next; /* its own value */
	if (!memprof_are_roots_of(roots, 1, end))
		return 0;
	roots = roots->next; /* its arguments */
	if (!memprof_are_roots_of(roots, 3, end) ||
	    !memprof_is_call_of_start(*(const uint64_t *)link->sp))
		return 0;
	return roots;
}

/* The stopped profile continues to report events of its blocks, so it is kept. */
static void start_after_all(const struct local_roots *start)
{
	value rate = *start->table[0], frames = *start->table[1], tracker = *start->table[2];
	value result;

	*local_roots() = start->next;
	FIELD(memprof_profile_of(caml_state), PROFILE_STATUS) = PROFILE_STOPPED;
	result = caml_memprof_start(rate, frames, tracker);
	memprof_stub5_return(result, caml_state,
			     (uint64_t)(uintptr_t)caml_c_call + sizeof call_code);
}

/* Any thread may call this, under any lock. Only a thread that has a domain does more. */
static __attribute__((noinline)) void make_room_for(const char *text)
{
	const struct local_roots *start;

	if (!memprof_activity.sampling || !caml_state || memprof_starts_profile() ||
	    memcmp(text, MEMPROF_REFUSAL, sizeof MEMPROF_REFUSAL) != 0 || !memprof_domain_samples())
		return;
	start = refused_start();
	if (start)
		start_after_all(start);
}

static size_t on_strlen(const char *text)
{
	size_t length = real_strlen(text);

	if (UNLIKELY(length == sizeof MEMPROF_REFUSAL - 1))
		make_room_for(text);
	return length;
}

/* ------------------------------------------------------------------ the slot */

/* A call that is not bound yet leads into the file itself. In a program that defines strlen itself
 * our function does too; nothing is patched then. */
static void patch(const struct elf_object *object, measure **slot)
{
	measure *held = __atomic_load_n(slot, __ATOMIC_RELAXED);
	measure *real = elf_object_has(object, (uintptr_t)held, 1, PF_X) ? strlen : held;

	if (real == on_strlen || elf_object_has(object, (uintptr_t)real, 1, PF_X) ||
	    (real_strlen && real_strlen != real))
		return;
	real_strlen = real;
	memprof_slot_set(object, (void **)slot, (void *)held, (void *)on_strlen);
}

static void patch_each(struct elf_object *object, const struct elf_relocations *relocations)
{
	for (size_t i = 0; i < relocations->count; i++) {
		const ElfW(Rela) *relocation = &relocations->first[i];
		uint32_t type = ELF64_R_TYPE(relocation->r_info);
		uintptr_t slot = object->base + relocation->r_offset;
		const ElfW(Sym) * symbol;

		if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) || (slot & 7) != 0)
			continue;
		symbol = elf_object_symbol(object, relocation);
		if (symbol && strcmp(elf_object_name(object, symbol), "strlen") == 0 &&
		    elf_object_has(object, slot, sizeof(measure *), PF_W))
			patch(object, (measure **)slot);
	}
}

static void take_slot(void)
{
	struct dl_phdr_info file = {.dlpi_addr = 0};
	struct elf_object object;

	if (!memprof_segment_of((uintptr_t)&caml_memprof_start, &file) ||
	    !elf_object_read(&object, &file) || elf_object_function(&object, "strlen") != 0)
		return;
	patch_each(&object, &object.calls);
	patch_each(&object, &object.data);
}

static int is_possible(void)
{
	return memprof_agent_control.offsets.local_roots != 0 && !caml_memprof_is_sampling &&
	       &caml_exn_Failure && caml_c_call &&
	       memcmp((const void *)(uintptr_t)caml_c_call, call_code, sizeof call_code) == 0;
}

void memprof_room_take_slot(void)
{
	static int taken;

	if (LIKELY(taken) || !is_possible() || !memprof_c_heap_take_turn())
		return;
	taken = 1;
	take_slot();
	memprof_c_heap_end_turn();
}
