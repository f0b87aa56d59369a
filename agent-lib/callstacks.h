/* SPDX-License-Identifier: Apache-2.0 */
/* Callstacks as the runtime passes them to a callback: blocks of slots, innermost frame first. */
#ifndef MEMPROF_CALLSTACKS_H
#define MEMPROF_CALLSTACKS_H

#include <stdint.h>

#include "runtime_abi.h"

/* Returns the callstack of a sample, from the block that its callback receives. If it is gone,
 * returns an empty one and counts it. */
value memprof_callstack_of(value info);
/* Counts a sample whose callstack was gone. */
void memprof_count_moved_callstack(void);

/* Nothing is mapped below this address (vm.mmap_min_addr). */
#define LOWEST_ADDRESS 0x10000u
#define ADDRESSES (UINT64_C(1) << 47)

static inline int memprof_is_address(uint64_t address)
{
	return address - LOWEST_ADDRESS < ADDRESSES - LOWEST_ADDRESS;
}

/* A slot is an address with bit 0 set: a frame descriptor, whose first word is the return address,
 * or, with bit 1 set too, a debuginfo. No pointer of OCaml looks like one, and very few integers
 * do. */
static inline int memprof_is_slot(value slot)
{
	return (slot & 1) != 0 && memprof_is_address((uint64_t)slot);
}

static inline int memprof_is_debuginfo(value slot) { return (slot & 2) != 0; }

static inline uint64_t memprof_address_of(value slot)
{
	uintptr_t address = (uintptr_t)slot & ~(uintptr_t)3;

	return memprof_is_debuginfo(slot) ? address : *(const uint64_t *)address;
}

#endif
