/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "late_stacks.h"

#include <link.h>

#include "../buffers.h"
#include "../callstacks.h"

typedef void (*scanning_action)(value, value *);
typedef uint64_t *allocator(uint64_t words); /* of the header; null: no room */

extern allocator *caml_fl_p_allocate WEAK;
extern void (*caml_scan_roots_hook)(scanning_action) WEAK;

/* The runtime allocates so many words for the callstack of a late sample. */
#ifndef MEMPROF_MAY_BE_CALLSTACK
#define MEMPROF_MAY_BE_CALLSTACK(words) ((words) == 1)
#endif

#define LATE 1024u
#define WORDS 65536u /* of their frames in all */
/* A program that itself allocates so many blocks of that size, for each callstack and at least,
 * would pay for a walk with each. */
#define STRANGERS_EACH 16u
#ifndef MEMPROF_STRANGERS_MIN
#define MEMPROF_STRANGERS_MIN 4096u
#endif

/* Both are rings: numbers only grow, and count modulo their size. */
static struct late_stack {
	value block; /* a root; 0: none any more */
	uint64_t words_at;
	uint32_t depth, cut;
	const struct memprof_stack *stack; /* that it was found in, by this walk of it */
	uint64_t walks;
} late[LATE];
static uint64_t late_begin, late_end, late_next; /* the next one is likely to be taken next */
static uint64_t words[WORDS];
static uint64_t words_end;

static allocator *next_allocate;
static void (*next_scan_roots)(scanning_action);
static int active, scanning; /* in a session; in the chain of scanners */
#define NONE UINT64_MAX
static uint64_t again_at = NONE; /* taken, and may be taken again */
static uint64_t taken;		 /* of those kept, at most all */
static struct {
	uintptr_t begin, end;
} runtime_code;

/* ------------------------------------------------------------------ the runtime */

static int find_code(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t wanted = (uintptr_t)caml_callback_exn;

	(void)size;
	(void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_LOAD || wanted < begin || wanted >= end)
			continue;
		runtime_code.begin = begin;
		runtime_code.end = end;
		return 1;
	}
	return 0;
}

void memprof_late_stacks_load(void) { dl_iterate_phdr(find_code, NULL); }

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

static int words_are_there(const struct late_stack *of)
{
	return words_end - of->words_at <= WORDS;
}

/* Whether the walk that found these frames has found all as it was for the one kept last. */
static int is_last_again(const struct memprof_frames *found)
{
	const struct late_stack *last = &late[(late_end - 1) % LATE];

	return late_end != late_begin && found->stack && last->stack == found->stack &&
	       last->walks + 1 == found->stack->walks &&
	       found->stack->kept == found->stack->count && words_are_there(last);
}

static uint64_t keep_words(const struct memprof_frames *found)
{
	uint64_t at = words_end;
	uint64_t *to;

	if (at % WORDS + found->depth > WORDS)
		at += WORDS - at % WORDS;
	to = words + at % WORDS;
	words_end = at + found->depth;
	if (!found->stack) {
		memcpy(to, found->list, found->depth * sizeof *to);
		return at;
	}
	for (uint32_t i = 0; i < found->stack->count; i++) {
		if (memprof_slot_kind(&found->stack->slots[i]) == MEMPROF_SLOT_FRAME)
			*to++ = found->stack->slots[i].word;
	}
	return at;
}

static void fail_if_crowded(void)
{
	if (late_end > MEMPROF_STRANGERS_MIN && late_end - taken > STRANGERS_EACH * taken)
		memprof_walk_failed(MEMPROF_WALK_CROWDED);
}

static void keep(value block)
{
	struct late_stack one = {.block = block};
	struct memprof_frames found;

	if (!memprof_walk_own(&found)) {
		memprof_walk_failed(MEMPROF_WALK_BROKEN_STACK);
		return;
	}
	one.words_at =
		is_last_again(&found) ? late[(late_end - 1) % LATE].words_at : keep_words(&found);
	one.depth = found.depth;
	one.cut = found.cut;
	one.stack = found.stack;
	one.walks = found.stack ? found.stack->walks : 0;
	late[late_end++ % LATE] = one;
	if (late_end - late_begin > LATE)
		late_begin = late_end - LATE;
	fail_if_crowded();
}

/* The block has neither a header nor contents yet: nothing looks at it before it has. */
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
	for (uint64_t i = late_begin; i != late_end; i++) {
		value *block = &late[i % LATE].block;

		if (*block != 0)
			action(*block, block);
	}
	if (next_scan_roots)
		next_scan_roots(action);
}

/* ------------------------------------------------------------------ taking */

static struct late_stack *find(value block)
{
	uint64_t count = late_end - late_begin;

	if (late_next < late_begin || late_next >= late_end)
		late_next = late_begin;
	for (uint64_t i = 0; i < count; i++) {
		if (late[late_next % LATE].block == block)
			return &late[late_next % LATE];
		if (++late_next == late_end)
			late_next = late_begin;
	}
	return NULL;
}

static void forget(uint64_t at)
{
	if (at >= late_begin && at < late_end)
		late[at % LATE].block = 0;
	while (late_begin != late_end && late[late_begin % LATE].block == 0)
		late_begin++;
}

int memprof_take_late_stack(value callstack, int again, struct memprof_frames *found)
{
	const struct late_stack *one = find(callstack);

	if (!one) {
		memprof_late_stacks_go_on();
		return 0;
	}
	*found = (struct memprof_frames){one->depth, one->cut, NULL, words + one->words_at % WORDS};
	if (again_at != late_next) {
		forget(again_at);
		taken++;
	}
	if (again)
		again_at = late_next;
	else
		forget(late_next);
	return words_are_there(one);
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

void memprof_late_stacks_begin(void)
{
	late_begin = late_end = late_next = words_end = taken = 0;
	again_at = NONE;
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
	late_begin = late_end;
	if (caml_scan_roots_hook != scan_roots)
		return; /* another one has been chained above, which will call ours */
	caml_scan_roots_hook = next_scan_roots;
	scanning = 0;
}
