/* SPDX-License-Identifier: Apache-2.0 */
/* The scanners of OCaml 4. Each calls the action for every value that it finds, with the place that
 * holds it. */
#include "copy_roots.h"
#include "domains.h"

typedef void (*scanning_action)(value, value *);
extern void caml_do_roots(scanning_action, int do_globals) WEAK;
typedef void local_roots_scanner(scanning_action, char *bottom_of_stack, uintptr_t return_address,
				 value *gc_regs, void *local_roots);
extern local_roots_scanner caml_do_local_roots_nat WEAK;
extern local_roots_scanner caml_do_local_roots WEAK; /* its name in 4.11 */
extern void caml_scan_global_roots(scanning_action) WEAK;
extern void caml_final_do_roots(scanning_action) WEAK;
extern void caml_memprof_do_roots(scanning_action) WEAK;
extern void (*caml_scan_roots_hook)(scanning_action) WEAK;

int memprof_can_scan_ocaml4(void)
{
	return !memprof_has_domains() && &Caml_state && caml_do_roots &&
	       (caml_do_local_roots_nat || caml_do_local_roots) && caml_scan_global_roots &&
	       caml_final_do_roots && caml_memprof_do_roots && &caml_scan_roots_hook;
}

static void scan_locals(char *stack, uintptr_t return_address, value *gc_regs, void *locals)
{
	local_roots_scanner *scan =
		caml_do_local_roots_nat ? caml_do_local_roots_nat : caml_do_local_roots;

	scan(memprof_note_root, stack, return_address, gc_regs, locals);
}

static void scan_stack(const struct memprof_state_layout *at)
{
	scan_locals(*(char **)(Caml_state + at->stack),
		    *(uintptr_t *)(Caml_state + at->last_return_address),
		    *(value **)(Caml_state + at->gc_regs), 0);
	memprof_end_root_section(MEMPROF_ROOT_STACK, 0);
}

/* Scans all roots except those of modules. */
static void scan_others(const struct memprof_state_layout *at)
{
	scan_stack(at);
	scan_locals(0, 0, 0, *(void **)(Caml_state + at->local_roots));
	memprof_end_root_section(MEMPROF_ROOT_LOCAL, 0);
	caml_scan_global_roots(memprof_note_root);
	memprof_end_root_section(MEMPROF_ROOT_C_GLOBAL, 0);
	caml_final_do_roots(memprof_note_root);
	memprof_end_root_section(MEMPROF_ROOT_FINALISER, 0);
	caml_memprof_do_roots(memprof_note_root);
	memprof_end_root_section(MEMPROF_ROOT_MEMPROF, 0);
	if (caml_scan_roots_hook)
		caml_scan_roots_hook(memprof_note_root);
	memprof_end_root_section(MEMPROF_ROOT_THREAD, 0);
}

/* Roots of modules have no scanner of their own. The scanner of all roots begins with them and
 * continues with those of the other scanners, whose number shows where they begin. */
void memprof_scan_ocaml4(const struct memprof_state_layout *at)
{
	uint64_t others;

	scan_others(at);
	others = memprof_roots_noted();
	caml_do_roots(memprof_note_root, 1);
	memprof_roots_go_back(memprof_roots_noted() - others);
	memprof_end_root_section(MEMPROF_ROOT_MODULE, 0);
}
