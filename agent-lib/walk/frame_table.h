/* SPDX-License-Identifier: Apache-2.0 */
/* Frame descriptors of OCaml programs, and OCaml 4 stacks as they describe them
 * (runtime/caml/stack.h). */
#ifndef MEMPROF_FRAME_TABLE_H
#define MEMPROF_FRAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define MEMPROF_CHUNK_BOTTOM 0xffffu /* frame_size where C has called OCaml */

/* As the OCaml compiler emits it; further fields follow. */
struct memprof_descriptor {
	uint64_t return_address;
	uint16_t frame_size; /* bit 0: with debuginfo, bit 1: with allocation lengths */
	uint16_t live_count;
	uint16_t live[];
};

/* The runtime's hash table, linear probing, mask + 1 slots, null where free. */
struct memprof_frame_table {
	const struct memprof_descriptor *const *slots;
	uint64_t mask;
	/* OCaml 5: the runtime's own search; slots and mask then only identify the table. Null:
	 * search the table. */
	const struct memprof_descriptor *(*find)(uint64_t return_address);
};

static inline uint64_t memprof_stack_word(uint64_t address)
{
	return *(const volatile uint64_t *)(uintptr_t)address;
}

static inline const struct memprof_descriptor *
memprof_find_descriptor(const struct memprof_frame_table *table, uint64_t return_address)
{
	uint64_t at = return_address >> 3;

	if (table->find)
		return table->find(return_address);
	for (uint64_t i = 0; i <= table->mask; i++, at++) {
		const struct memprof_descriptor *descriptor = table->slots[at & table->mask];

		if (!descriptor || descriptor->return_address == return_address)
			return descriptor;
	}
	return NULL;
}

/* Words, headers included, of the allocations that are combined at this descriptor; 0 if there are
 * none. The table stores lengths without the header, minus one. */
static inline uint32_t memprof_allocated_words(const struct memprof_descriptor *descriptor)
{
	const uint8_t *lengths = (const uint8_t *)(descriptor->live + descriptor->live_count);
	uint32_t words = 0;

	if (descriptor->frame_size == MEMPROF_CHUNK_BOTTOM || (descriptor->frame_size & 2) == 0)
		return 0;
	for (uint32_t i = 1; i <= *lengths; i++)
		words += lengths[i] + 2u;
	return words;
}

/* True if this is the debuginfo of one of the allocations that are combined at this descriptor. */
static inline int memprof_has_debuginfo(const struct memprof_descriptor *descriptor,
					uint64_t debuginfo)
{
	const uint8_t *at = (const uint8_t *)(descriptor->live + descriptor->live_count);
	uint32_t count = 1;

	if ((descriptor->frame_size & 1) == 0)
		return 0;
	if ((descriptor->frame_size & 2) != 0) {
		count = *at;
		at += count + 1;
	}
	at = (const uint8_t *)(((uintptr_t)at + 3) & ~(uintptr_t)3);
	for (uint32_t i = 0; i < count; i++, at += sizeof(uint32_t)) {
		if ((uintptr_t)at + *(const uint32_t *)at == debuginfo)
			return 1;
	}
	return 0;
}

/* Collects the return addresses of the innermost frames of a stack, as many as the array has room
 * for, outermost first at its end. Returns their number. */
static inline uint32_t memprof_walk_innermost(const struct memprof_frame_table *table, uint64_t sp,
					      uint64_t pc, uint64_t *frames, uint32_t room)
{
	uint32_t found = 0;

	while (sp != 0 && found < room) {
		const struct memprof_descriptor *descriptor = memprof_find_descriptor(table, pc);
		uint64_t at = sp;

		if (!descriptor)
			break;
		if (descriptor->frame_size == MEMPROF_CHUNK_BOTTOM) {
			sp = memprof_stack_word(at + 16);
			pc = memprof_stack_word(at + 24);
			continue;
		}
		frames[room - ++found] = pc;
		sp += descriptor->frame_size & 0xfffc;
		pc = memprof_stack_word(sp - 8);
	}
	return found;
}

#endif
