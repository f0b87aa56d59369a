/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "late_stacks.h"

#include <link.h>

#include "../buffers.h"
#include "../native_heap/linker.h"
#include "../native_heap/own_memory.h"
#include "../callstacks.h"

typedef void (*scanning_action)(value, value *);
typedef uint64_t *allocator(uint64_t words); /* includes the header; null: no room */

extern allocator *caml_fl_p_allocate WEAK;
extern void (*caml_scan_roots_hook)(scanning_action) WEAK;

/* Words that the runtime allocates for the callstack of a late sample. */
#ifndef MEMPROF_MAY_BE_CALLSTACK
#define MEMPROF_MAY_BE_CALLSTACK(words) ((words) == 1)
#endif

#ifndef MEMPROF_LATE
#define MEMPROF_LATE 1024u	  /* maximum number of waiting stacks */
#define MEMPROF_LATE_WORDS 32768u /* maximum number of their frames */
#endif
#define WORDS MEMPROF_LATE_WORDS
#define NONE UINT16_MAX
/* If the program itself allocates more blocks of that size, per callstack and in all, walking the
 * stack for each of them costs too much. */
#define STRANGERS_EACH 16u
#ifndef MEMPROF_STRANGERS_MIN
#define MEMPROF_STRANGERS_MIN 4096u
#endif

/* Linked by age; the free ones are in a list of their own. */
static struct late_stack {
	value block; /* a root */
	uint32_t words_at, depth, cut;
	uint16_t older, newer;
	const struct memprof_stack *stack; /* the stack and walk in which it was found */
	uint64_t walks;
} late[MEMPROF_LATE];
static uint16_t oldest, newest, first_free;

/* The frames are in one half. When that is full, those that still wait go to the other one. */
static uint64_t words[2][WORDS];
static uint32_t half, words_used;

static allocator *next_allocate;
static void (*next_scan_roots)(scanning_action);
static int active, scanning; /* active: in a session; scanning: in the chain of scanners */
static uint16_t again_at;    /* taken, and may be taken again; or NONE */
static uint64_t kept, taken; /* numbers of stacks since the session began */
static struct {
	uintptr_t begin, end;
} runtime_code;

/* ------------------------------------------------------------------ the runtime */

void memprof_late_stacks_load(void)
{
	struct dl_phdr_info file;
	const ElfW(Phdr) *code = memprof_segment_of((uintptr_t)caml_callback_exn, &file);

	if (!code)
		return;
	runtime_code.begin = file.dlpi_addr + code->p_vaddr;
	runtime_code.end = runtime_code.begin + code->p_memsz;
}

static int is_of_runtime(allocator *function)
{
	return (uintptr_t)function >= runtime_code.begin && (uintptr_t)function < runtime_code.end;
}

static uint64_t *on_allocate(uint64_t size);

int memprof_late_stacks_are_possible(void)
{
	return &caml_fl_p_allocate && &caml_scan_roots_hook && &caml_minor_gc_begin_hook &&
	       (is_of_runtime(caml_fl_p_allocate) || caml_fl_p_allocate == on_allocate);
}

/* ------------------------------------------------------------------ keeping */

static void forget(uint16_t i)
{
	struct late_stack *one = &late[i];

	*(one->older == NONE ? &oldest : &late[one->older].newer) = one->newer;
	*(one->newer == NONE ? &newest : &late[one->newer].older) = one->older;
	one->newer = first_free;
	first_free = i;
	if (again_at == i)
		again_at = NONE;
}

static uint16_t new_one(void)
{
	uint16_t i;

	if (first_free == NONE)
		forget(oldest);
	i = first_free;
	first_free = late[i].newer;
	late[i].older = newest;
	late[i].newer = NONE;
	*(newest == NONE ? &oldest : &late[newest].newer) = i;
	newest = i;
	return i;
}

/* Consecutive kept stacks may share words. The oldest ones are dropped if there is no room for all
 * and `more` words. */
static void move_words(uint32_t more)
{
	uint32_t used = 0, before = WORDS, now = 0;

	for (uint16_t i = newest, older; i != NONE; i = older) {
		struct late_stack *one = &late[i];
		uint32_t at = one->words_at;

		older = one->older;
		if (at != before && used + one->depth + more > WORDS) {
			forget(i);
			continue;
		}
		if (at != before) {
			memcpy(words[!half] + used, words[half] + at, one->depth * sizeof **words);
			now = used;
			used += one->depth;
			before = at;
		}
		one->words_at = now;
	}
	half = !half;
	words_used = used;
}

static uint32_t keep_words(const struct memprof_frames *found)
{
	uint64_t *to;

	if (words_used + found->depth > WORDS)
		move_words(found->depth);
	to = words[half] + words_used;
	words_used += found->depth;
	if (!found->stack) {
		memcpy(to, found->list, found->depth * sizeof *to);
		return words_used - found->depth;
	}
	for (uint32_t i = 0; i < found->stack->count; i++) {
		if (memprof_slot_kind(&found->stack->slots[i]) == MEMPROF_SLOT_FRAME)
			*to++ = found->stack->slots[i].word;
	}
	return words_used - found->depth;
}

/* True if the walk that found these frames found everything unchanged since the last kept one. */
static int is_last_again(const struct memprof_frames *found)
{
	const struct late_stack *last = &late[newest];

	return newest != NONE && found->stack && last->stack == found->stack &&
	       last->walks + 1 == found->stack->walks && found->stack->kept == found->stack->count;
}

static void keep(value block)
{
	struct memprof_frames found;
	struct late_stack *one;
	uint32_t at;

	if (!memprof_walk_own(&found)) {
		memprof_walk_failed(MEMPROF_WALK_BROKEN_STACK);
		return;
	}
	at = is_last_again(&found) ? late[newest].words_at : keep_words(&found);
	one = &late[new_one()];
	one->block = block;
	one->words_at = at;
	one->depth = found.depth;
	one->cut = found.cut;
	one->stack = found.stack;
	one->walks = found.stack ? found.stack->walks : 0;
	if (++kept > MEMPROF_STRANGERS_MIN && kept - taken > STRANGERS_EACH * taken)
		memprof_walk_failed(MEMPROF_WALK_CROWDED);
}

/* The block has neither a header nor contents yet, and nothing reads it before it has. */
static uint64_t *on_allocate(uint64_t size)
{
	uint64_t *header = next_allocate(size);

	if (MEMPROF_MAY_BE_CALLSTACK(size) && header && active &&
	    memprof_agent_control.walk_state == MEMPROF_WALK_OK)
		keep((value)(header + 1));
	return header;
}

static void scan_roots(scanning_action action)
{
	if (active) {
		for (uint16_t i = oldest; i != NONE; i = late[i].newer)
			action(late[i].block, &late[i].block);
	}
	if (next_scan_roots)
		next_scan_roots(action);
}

/* ------------------------------------------------------------------ taking */

static uint16_t find(value block)
{
	uint16_t i = newest;

	while (i != NONE && late[i].block != block)
		i = late[i].older;
	return i;
}

int memprof_take_late_stack(value callstack, int again, struct memprof_frames *found)
{
	uint16_t i = find(callstack);
	const struct late_stack *one;

	if (i == NONE) {
		memprof_late_stacks_go_on();
		return 0;
	}
	one = &late[i];
	*found = (struct memprof_frames){one->depth, one->cut, NULL, words[half] + one->words_at};
	if (again_at != i) {
		taken++;
		if (again_at != NONE)
			forget(again_at);
	}
	if (again)
		again_at = i;
	else
		forget(i);
	return 1;
}

/* ------------------------------------------------------------------ sessions */

void memprof_late_stacks_pause(void)
{
	if (active && caml_fl_p_allocate == on_allocate)
		caml_fl_p_allocate = next_allocate;
}

void memprof_late_stacks_go_on(void)
{
	if (!active || caml_fl_p_allocate == on_allocate)
		return;
	if (!is_of_runtime(caml_fl_p_allocate)) {
		memprof_walk_failed(MEMPROF_WALK_ALLOCATOR);
		return;
	}
	next_allocate = caml_fl_p_allocate;
	caml_fl_p_allocate = on_allocate;
}

static void forget_all(void)
{
	for (uint32_t i = 0; i < MEMPROF_LATE; i++)
		late[i].newer = i + 1 < MEMPROF_LATE ? (uint16_t)(i + 1) : NONE;
	first_free = 0;
	oldest = newest = again_at = NONE;
	words_used = 0;
	kept = taken = 0;
}

void memprof_late_stacks_begin(void)
{
	forget_all();
	if (!scanning) {
		next_scan_roots = caml_scan_roots_hook;
		caml_scan_roots_hook = scan_roots;
		scanning = 1;
	}
	active = 1;
	memprof_late_stacks_go_on();
}

void memprof_late_stacks_end(void)
{
	if (!active)
		return;
	memprof_late_stacks_pause();
	active = 0;
	if (caml_scan_roots_hook != scan_roots)
		return; /* another one has been chained above, which will call ours */
	caml_scan_roots_hook = next_scan_roots;
	scanning = 0;
}
