// SPDX-License-Identifier: Apache-2.0
/* The registry: its slots, its initialisation, its behaviour at a fork, and functions that all
 * writers share. It does nothing by itself. */
#define _GNU_SOURCE
#include "registry.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#define HEAD memprof_values_registry.head

/* In .bss, so that unused parts take no memory. */
struct memprof_values memprof_values_registry __attribute__((aligned(4096)));
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

_Static_assert(sizeof(struct memprof_slot) == 512, "a slot's size");
_Static_assert(sizeof(struct memprof_log_entry) == 256, "a log entry's size");
_Static_assert(sizeof(struct memprof_request) == 4096, "a request's size");
_Static_assert(sizeof(struct memprof_timer_cell) == 64, "a cache line");
_Static_assert(sizeof(struct memprof_timer_histogram) == 1280, "a histogram's size");
_Static_assert(sizeof(struct memprof_values_head) == 192, "three cache lines");
_Static_assert(offsetof(struct memprof_values_head, semaphore) == 12, "the note says 12");

/* The note by which watchers find the registry. */
__asm__(".pushsection .text\n"
	".Lmemprof_values_probe: nop\n"
	".popsection\n"
	".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
	".weak _.stapsdt.base\n"
	".hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n"
	".size _.stapsdt.base, 1\n"
	".popsection\n"
	".pushsection .note.stapsdt, \"\", \"note\"\n"
	".balign 4\n"
	".4byte 2f - 1f, 4f - 3f, 3\n"
	"1: .asciz \"stapsdt\"\n"
	"2: .balign 4\n"
	"3: .8byte .Lmemprof_values_probe\n"
	".8byte _.stapsdt.base\n"
	".8byte memprof_values_registry + 12\n"
	".asciz \"memprof\"\n"
	".asciz \"values\"\n"
	".asciz \"\"\n"
	"4: .balign 4\n"
	".popsection\n");

void memprof_values_lock(__u64 *seq)
{
	for (unsigned int tries = 1;; tries++) {
		__u64 now = __atomic_load_n(seq, __ATOMIC_RELAXED);

		if (now % 2 == 0 && __atomic_compare_exchange_n(seq, &now, now + 1, 0,
								__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			break;
		if (tries % 64 == 0)
			sched_yield();
	}
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void put_text(char *out, size_t room, struct memprof_text text)
{
	memcpy(out, text.bytes, text.count < room ? text.count : room);
}

static int is_text(const char *kept, size_t room, struct memprof_text text)
{
	size_t count = text.count < room ? text.count : room;

	return memcmp(kept, text.bytes, count) == 0 && (count == room || kept[count] == 0);
}

static uint32_t find(enum memprof_slot_kind kind, struct memprof_text name,
		     struct memprof_text labels)
{
	for (uint32_t i = 0; i < HEAD.slots_used; i++) {
		const struct memprof_slot *slot = &memprof_values_registry.slots[i];

		if (slot->kind == kind && is_text(slot->name, sizeof slot->name - 1, name) &&
		    is_text(slot->labels, sizeof slot->labels - 1, labels))
			return i;
	}
	return MEMPROF_VALUES_SLOTS;
}

static int is_timer(enum memprof_slot_kind kind)
{
	return kind == MEMPROF_SLOT_TIMER || kind == MEMPROF_SLOT_PHASE;
}

static int has_room(enum memprof_slot_kind kind)
{
	return HEAD.slots_used < MEMPROF_VALUES_OWN_SLOTS &&
	       (!is_timer(kind) || HEAD.timers_used < MEMPROF_VALUES_TIMERS - 1) &&
	       (kind != MEMPROF_SLOT_REQUEST || HEAD.requests_used < MEMPROF_VALUES_REQUESTS);
}

/* Raises slots_used last, because the slot counts only when it is complete. */
static uint32_t add(enum memprof_slot_kind kind, struct memprof_text name,
		    struct memprof_text labels, struct memprof_text unit)
{
	uint32_t index = HEAD.slots_used;
	struct memprof_slot *slot = &memprof_values_registry.slots[index];

	if (!has_room(kind)) {
		HEAD.refused++;
		return kind == MEMPROF_SLOT_POINT ? MEMPROF_VALUES_OTHER_POINTS
		       : is_timer(kind)		  ? MEMPROF_VALUES_OTHER_TIMERS
						  : MEMPROF_VALUES_OTHER_VALUES;
	}
	if (is_timer(kind))
		slot->cell = HEAD.timers_used++;
	if (kind == MEMPROF_SLOT_REQUEST)
		slot->cell = HEAD.requests_used++;
	slot->kind = kind;
	put_text(slot->name, sizeof slot->name - 1, name);
	put_text(slot->labels, sizeof slot->labels - 1, labels);
	put_text(slot->unit, sizeof slot->unit - 1, unit);
	__atomic_store_n(&HEAD.slots_used, index + 1, __ATOMIC_RELEASE);
	return index;
}

uint32_t memprof_values_slot(enum memprof_slot_kind kind, struct memprof_text name,
			     struct memprof_text labels, struct memprof_text unit)
{
	uint32_t index;

	pthread_mutex_lock(&making);
	index = find(kind, name, labels);
	if (index == MEMPROF_VALUES_SLOTS)
		index = add(kind, name, labels, unit);
	pthread_mutex_unlock(&making);
	return index;
}

uint32_t memprof_values_lane(uint32_t domain)
{
	__u32 used = __atomic_load_n(&HEAD.lanes_used, __ATOMIC_RELAXED);

	if (domain >= MEMPROF_VALUES_SHARED_LANE) {
		__atomic_store_n(&HEAD.shared_used, 1, __ATOMIC_RELAXED);
		return MEMPROF_VALUES_SHARED_LANE;
	}
	while (used <= domain &&
	       !__atomic_compare_exchange_n(&HEAD.lanes_used, &used, domain + 1, 0,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
	return domain;
}

/* Drops the line if its entry is still being written, by a thread that 256 later lines have
 * overtaken. */
void memprof_values_add_line(enum memprof_log_kind kind, uint32_t slot, struct memprof_text text)
{
	struct memprof_log_entry *entry;
	__u64 number, seq;

	if ((kind == MEMPROF_LOG_PHASE_ENTER || kind == MEMPROF_LOG_PHASE_LEAVE) &&
	    memprof_values_control(slot) & MEMPROF_CONTROL_OFF)
		return;
	number = __atomic_fetch_add(&HEAD.log_next, 1, __ATOMIC_RELAXED);
	entry = &memprof_values_registry.log[number % MEMPROF_VALUES_LOG];
	seq = __atomic_load_n(&entry->seq, __ATOMIC_RELAXED);
	if (seq % 2 != 0 || !__atomic_compare_exchange_n(&entry->seq, &seq, seq | 1, 0,
							 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&HEAD.log_lost, 1, __ATOMIC_RELAXED);
		return;
	}
	__atomic_thread_fence(__ATOMIC_RELEASE);
	entry->ticks = memprof_values_ticks();
	entry->kind = kind;
	entry->slot = slot;
	entry->text_bytes = (uint32_t)text.count;
	put_text(entry->text, sizeof entry->text, text);
	memprof_values_unlock_as(&entry->done, &entry->seq, 2 * (number + 1));
}

/* The line is also kept for a viewer that arrives during the wait. */
uint64_t memprof_values_begin_pause(struct memprof_text name, int is_waiting)
{
	uint64_t number = __atomic_add_fetch(&HEAD.pauses, 1, __ATOMIC_RELAXED);

	if (is_waiting)
		__atomic_add_fetch(&HEAD.waiting, 1, __ATOMIC_RELAXED);
	if (is_waiting || memprof_values_observed())
		memprof_values_add_line(MEMPROF_LOG_PAUSE, 0, name);
	return number;
}

int memprof_values_wait(uint64_t pause, uint64_t until_ns)
{
	const struct timespec some = {0, 5000000};

	if (__atomic_load_n(&HEAD.resumed, __ATOMIC_RELAXED) >= pause)
		return 1;
	if (memprof_values_ns(CLOCK_MONOTONIC) >= until_ns)
		return -1;
	nanosleep(&some, NULL);
	return 0;
}

void memprof_values_end_wait(void) { __atomic_sub_fetch(&HEAD.waiting, 1, __ATOMIC_RELAXED); }

static void clear_lane(uint32_t index)
{
	struct memprof_lane *lane = &memprof_values_registry.lanes[index];
	struct memprof_lane_histograms *histograms = &memprof_values_registry.histograms[index];

	for (uint32_t i = 0; i < MEMPROF_VALUES_SLOTS; i++)
		if (lane->points[i].hits != 0)
			lane->points[i].hits &= 1;
	for (uint32_t i = 0; i < MEMPROF_VALUES_TIMERS; i++)
		if (lane->timers[i].seq != 0) {
			memset(&lane->timers[i], 0, sizeof lane->timers[i]);
			memset(&histograms->timers[i], 0, sizeof histograms->timers[i]);
		}
}

/* Requests to the parent do not concern the child. */
static void forget_requests(void)
{
	for (uint32_t i = 0; i < HEAD.requests_used; i++) {
		struct memprof_request *request = &memprof_values_registry.requests[i];

		request->asked = 0;
		request->running = 0;
		if (request->seq % 2 != 0)
			memprof_values_unlock(&request->done, &request->seq);
	}
}

/* The child has counts of its own. Threads that were writing at the fork do not exist in it. */
static void in_forked_child(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	making = unlocked;
	HEAD.forks++;
	HEAD.observed_until_ns = 0;
	HEAD.waiting = 0;
	for (uint32_t i = 0; i < HEAD.lanes_used; i++)
		clear_lane(i);
	if (HEAD.shared_used)
		clear_lane(MEMPROF_VALUES_SHARED_LANE);
	for (uint32_t i = 0; i < HEAD.slots_used; i++) {
		struct memprof_slot *slot = &memprof_values_registry.slots[i];

		if (slot->seq % 2 != 0)
			memprof_values_unlock(&slot->done, &slot->seq);
	}
	if (HEAD.log_next != 0)
		memset(memprof_values_registry.log, 0, sizeof memprof_values_registry.log);
	HEAD.log_next = HEAD.log_lost = 0;
	forget_requests();
}

/* Uses the cycle counter only if it runs at a constant rate in all states of the processor. */
static enum memprof_values_clock choose_clock(void)
{
#ifdef __x86_64__
	unsigned int a, b, c, d;

	if (__get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8))
		return MEMPROF_VALUES_TSC;
#endif
	return MEMPROF_VALUES_MONOTONIC_NS;
}

static void name_slot(uint32_t index, enum memprof_slot_kind kind)
{
	struct memprof_slot *slot = &memprof_values_registry.slots[index];

	memcpy(slot->name, "other", sizeof "other");
	slot->kind = kind;
	slot->cell = MEMPROF_VALUES_TIMERS - 1;
}

/* Runs before other constructors, which may create points. */
__attribute__((constructor(101))) static void load(void)
{
	HEAD.clock = choose_clock();
	HEAD.slot_bytes = sizeof(struct memprof_slot);
	HEAD.lane_bytes = sizeof(struct memprof_lane);
	HEAD.log_entry_bytes = sizeof(struct memprof_log_entry);
	HEAD.request_bytes = sizeof(struct memprof_request);
	HEAD.histogram_bytes = sizeof(struct memprof_timer_histogram);
	HEAD.abi = MEMPROF_VALUES_ABI;
	name_slot(MEMPROF_VALUES_OTHER_POINTS, MEMPROF_SLOT_POINT);
	name_slot(MEMPROF_VALUES_OTHER_TIMERS, MEMPROF_SLOT_TIMER);
	pthread_atfork(NULL, NULL, in_forked_child);
	__atomic_store_n(&HEAD.magic, MEMPROF_VALUES_MAGIC, __ATOMIC_RELEASE);
}
