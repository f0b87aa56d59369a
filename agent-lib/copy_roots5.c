/* SPDX-License-Identifier: Apache-2.0 */
/* The scanners of OCaml 5, most of which scan one domain. Each calls the action for every value
 * that it finds, with the place that holds it. */
#include "copy_roots.h"
#include "domains.h"

typedef void (*scanning_action)(void *data, value, value *);
#define ALL_VALUES 0 /* scanning_action_flags: scan all values, not only those in minor heaps */
extern void caml_do_local_roots(scanning_action, int flags, void *data, void *local_roots,
				void *current_stack, value *gc_regs) WEAK;
extern void caml_scan_global_roots(scanning_action, void *data) WEAK;
extern void caml_final_do_roots(scanning_action, int flags, void *data, domain_state *,
				int finalised_values) WEAK;
extern void caml_memprof_scan_roots(scanning_action, int flags, void *data, domain_state *,
				    _Bool weak) WEAK;
extern void (*caml_scan_roots_hook)(scanning_action, int flags, void *data, domain_state *) WEAK;
extern value *caml_globals[] WEAK; /* the blocks of each module, ending with 0 */

int memprof_can_scan_ocaml5(void)
{
	return memprof_has_domains() && &caml_state && caml_do_local_roots &&
	       caml_scan_global_roots && caml_final_do_roots && caml_memprof_scan_roots &&
	       &caml_scan_roots_hook && caml_globals && caml_try_run_on_all_domains &&
	       &caml_num_domains_running;
}

static void note(void *data, value held, value *slot)
{
	(void)data;
	memprof_note_root(held, slot);
}

/* Address of the first field of all modules. */
static value *first_of_modules(void)
{
	for (value **module = caml_globals; *module; module++)
		for (value *block = *module; *block; block++)
			if (WORDS_OF(*block) != 0)
				return &FIELD(*block, 0);
	return 0;
}

/* One scanner finds the values that C code has registered first, then those of modules. */
static void note_global(void *first, value held, value *slot)
{
	if (slot == first)
		memprof_end_root_section(MEMPROF_ROOT_C_GLOBAL, 0);
	memprof_note_root(held, slot);
}

static void scan_globals(void)
{
	caml_scan_global_roots(note_global, first_of_modules());
	memprof_end_root_section(MEMPROF_ROOT_MODULE, 0);
}

static void scan_domain(const struct memprof_state_layout *at, domain_state *state, uint32_t domain)
{
	caml_do_local_roots(note, ALL_VALUES, 0, 0, *(void **)(state + at->stack),
			    *(value **)(state + at->gc_regs));
	memprof_end_root_section(MEMPROF_ROOT_STACK, domain);
	caml_do_local_roots(note, ALL_VALUES, 0, *(void **)(state + at->local_roots), 0, 0);
	memprof_end_root_section(MEMPROF_ROOT_LOCAL, domain);
	caml_final_do_roots(note, ALL_VALUES, 0, state, 0);
	memprof_end_root_section(MEMPROF_ROOT_FINALISER, domain);
	caml_memprof_scan_roots(note, ALL_VALUES, 0, state, 0);
	memprof_end_root_section(MEMPROF_ROOT_MEMPROF, domain);
	if (caml_scan_roots_hook)
		caml_scan_roots_hook(note, ALL_VALUES, 0, state);
	memprof_end_root_section(MEMPROF_ROOT_THREAD, domain);
}

/* The hook of systhreads scans the running domain instead of the requested one. */
void memprof_scan_ocaml5(const struct memprof_state_layout *at, domain_state *const *domains,
			 uint32_t count)
{
	scan_globals();
	for (uint32_t i = 0; i < count; i++) {
		caml_state = domains[i];
		scan_domain(at, domains[i], i);
	}
}
