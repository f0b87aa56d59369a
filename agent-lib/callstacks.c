/* SPDX-License-Identifier: Apache-2.0 */
#include "callstacks.h"

#include "buffers.h"
#include "domains.h"
#include "static_value.h"

static struct {
	uint64_t header;
} no_callstack = {STATIC_HEADER(0, 0)};

void memprof_count_moved_callstack(void)
{
	__atomic_fetch_add(&memprof_agent_control.callstacks_moved, 1, __ATOMIC_RELAXED);
}

static int is_address_of_block(value block)
{
	return block % (value)sizeof(value) == 0 && memprof_is_address((uint64_t)block);
}

static int is_in_minor_heap(value block)
{
	return block >= *(const value *)(caml_state + MEMPROF_DOMAIN_YOUNG_START) &&
	       block <= *(const value *)(caml_state + MEMPROF_DOMAIN_YOUNG_END);
}

/*
 * OCaml 5.3 allocates the callstack of a sample, then `info`. If the sample has waited for more
 * than a minor collection, the runtime does not count it as young (run_alloc_callback_res of
 * runtime/memprof.c). If allocating `info` then causes a collection, the callstack stays where it
 * was, and `info` overwrites it:
 *
 *   minor heap   ...          | callstack 7 slots |   its end      `info` points to the callstack
 *   collection   ...                                               and still does
 *   info         ...              | info 4 fields |                slots 2 to 6 are gone
 *
 * The callstack is then in the minor heap, but not right above `info`. Another collection, caused
 * by an allocation of a callback in a fiber, moves both and turns garbage into a block of the major
 * heap. Therefore no callstack of a moved `info` is trusted. OCaml 5.4 allocates `info` first, so
 * the callstack is valid wherever both lie.
 */
static int is_left_behind(value callstack, value info)
{
	if (!memprof_has_domains() || memprof_agent_control.offsets.callstacks_stay ||
	    callstack == info + 5 * (value)sizeof(value))
		return 0;
	return is_in_minor_heap(callstack) || !is_in_minor_heap(info);
}

value memprof_callstack_of(value info)
{
	value callstack = FIELD(info, 3);

	if (LIKELY(is_address_of_block(callstack) && !is_left_behind(callstack, info)))
		return callstack;
	memprof_count_moved_callstack();
	return VALUE_OF(no_callstack);
}
