/* SPDX-License-Identifier: Apache-2.0 */
#include "packed.h"

#include <cpuid.h>
#include <stddef.h>

#include "callstacks.h"
#include "clock.h"
#include "domains.h"
#include "walk/own_walk.h"
#include "walk/sample_switch.h"
#include "walk/reported_stack.h"

/* The largest record: a thread, an allocation with a wide size, and frames that are all far. */
#define RECORD_WORDS(frames) (2u + 7u + 3u * (frames))
#define MAX_RECORD_WORDS RECORD_WORDS(MEMPROF_PACKED_FRAMES)
#define MAX_BATCH_NS ((uint64_t)UINT32_MAX * MEMPROF_PACKED_TIME_NS)

/* State from which the batch's next record is encoded. */
struct packer {
	struct memprof_clock clock;
	uint64_t last_sample;
	uint32_t tid;
	uint32_t depth;
	/* The last callstack, with the outermost frame at the end, in the runtime's order. */
	value slots[MEMPROF_PACKED_FRAMES];
} __attribute__((aligned(64))); /* each domain writes its own */

static struct packer packers[MEMPROF_BUFFERS];

static int is_alloc(uint32_t kind) { return kind <= MEMPROF_ALLOC_MAJOR; }

static uint32_t *put(uint32_t *to, uint64_t word)
{
	*to = (uint32_t)word;
	return to + 1;
}

static uint32_t *put_wide(uint32_t *to, uint64_t number)
{
	return put(put(to, number), number >> 32);
}

/* ------------------------------------------------------------------ callstacks */

static uint32_t *put_frame(uint32_t *to, uint64_t address, uint64_t base)
{
	int64_t distance = (int64_t)(address - base);

	if (distance > INT32_MIN && distance <= INT32_MAX)
		return put(to, (uint64_t)distance);
	return put_wide(put(to, MEMPROF_PACKED_FAR), address);
}

/* Number of equal values before these two ends; counts up to limit. */
static uint32_t same_before(const value *a, const value *b, uint32_t limit)
{
	uint32_t n = 0;

	while (n + 4 <= limit && a[-1] == b[-1] && a[-2] == b[-2] && a[-3] == b[-3] &&
	       a[-4] == b[-4]) {
		a -= 4;
		b -= 4;
		n += 4;
	}
	while (n < limit && *--a == *--b)
		n++;
	return n;
}

/* Appends the frames that the previous callstack did not have. *bits: receives the bits for the
 * head. A value that is not a callstack is treated as an empty one. */
static uint32_t *put_callstack(uint32_t *begin, struct packer *packer, uint64_t base,
			       value callstack, uint32_t *bits)
{
	uint64_t length = *((const uint64_t *)callstack - 1) >> 10;
	uint32_t depth = length < MEMPROF_PACKED_FRAMES ? (uint32_t)length : MEMPROF_PACKED_FRAMES;
	uint32_t both = depth < packer->depth ? depth : packer->depth;
	const value *end = (const value *)callstack + depth;
	value *slots_end = packer->slots + MEMPROF_PACKED_FRAMES;
	uint32_t shared = same_before(end, slots_end, both);
	uint32_t *to = begin;

	for (uint32_t i = shared + 1; i <= depth; i++) {
		value slot = end[-(intptr_t)i];

		if (UNLIKELY(!memprof_is_slot(slot))) {
			memprof_count_moved_callstack();
			packer->depth = 0;
			*bits = 0;
			return begin;
		}
		slots_end[-(intptr_t)i] = slot;
		to = put_frame(to, memprof_address_of(slot), base);
	}
	packer->depth = depth;
	*bits = MEMPROF_PACKED_SHARED(shared) | MEMPROF_PACKED_NEW(depth - shared);
	if (depth > 0 && memprof_is_debuginfo(*(const value *)callstack))
		*bits |= MEMPROF_PACKED_DEBUGINFO;
	if (depth == MEMPROF_PACKED_FRAMES)
		*bits |= MEMPROF_PACKED_CUT;
	return to;
}

/* Writes the number of shared frames and of new ones. */
static uint32_t *put_counts(uint32_t *to, uint32_t shared, uint32_t new, uint32_t *bits)
{
	if (LIKELY(shared <= MEMPROF_PACKED_MAX_COUNT && new <= MEMPROF_PACKED_MAX_COUNT)) {
		*bits = MEMPROF_PACKED_SHARED(shared) | MEMPROF_PACKED_NEW(new);
		return to;
	}
	*bits = MEMPROF_PACKED_DEEP;
	return put(put(to, shared), new);
}

/* Does the same for a callstack that the agent has walked itself. */
static uint32_t *put_reported(uint32_t *to, uint64_t base,
			      const struct memprof_reported_stack *reported, uint32_t *bits)
{
	to = put_counts(to, reported->shared, reported->depth - reported->shared, bits);
	for (uint32_t i = reported->shared; i < reported->depth; i++)
		to = put_frame(to, reported->frames[i] & ~MEMPROF_REPORTED_DEBUGINFO, base);
	if (reported->depth > 0 &&
	    reported->frames[reported->depth - 1] >= MEMPROF_REPORTED_DEBUGINFO)
		*bits |= MEMPROF_PACKED_DEBUGINFO;
	if (reported->cut)
		*bits |= MEMPROF_PACKED_CUT;
	return to;
}

/* ------------------------------------------------------------------ records */

/* reported: null if the runtime has recorded the callstack. */
static uint32_t *put_alloc(uint32_t *to, struct packer *packer, const struct memprof_record *record,
			   uint64_t base, value callstack,
			   const struct memprof_reported_stack *reported)
{
	uint32_t *head = to++;
	uint32_t bits;

	*head = MEMPROF_ORIGIN_KIND(record->origin) |
		MEMPROF_PACKED_SOURCE(MEMPROF_ORIGIN_SOURCE(record->origin));
	if (record->size_words > UINT32_MAX) {
		*head |= MEMPROF_PACKED_WIDE;
		to = put_wide(to, record->size_words);
	} else {
		to = put(to, record->size_words);
	}
	to = put(to, record->n_samples);
	to = reported ? put_reported(to, base, reported, &bits)
		      : put_callstack(to, packer, base, callstack, &bits);
	*head |= bits;
	packer->last_sample = record->sample_id;
	return to;
}

static uint32_t *put_follow(uint32_t *to, const struct packer *packer,
			    const struct memprof_record *record)
{
	uint64_t behind = packer->last_sample - record->sample_id;
	uint64_t steps = behind >> memprof_sample_id_shift();
	uint32_t kind = MEMPROF_ORIGIN_KIND(record->origin);

	if (steps << memprof_sample_id_shift() == behind && steps <= MEMPROF_PACKED_MAX_BEHIND)
		return put(to, kind | MEMPROF_PACKED_BEHIND(steps));
	return put_wide(put(to, kind | MEMPROF_PACKED_WIDE), record->sample_id);
}

/* ------------------------------------------------------------------ batches */

static int counter_is_usable(void)
{
	static int usable = -1; /* asking takes long */
	unsigned a, b, c, d;

	if (usable < 0)
		usable = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8) != 0;
	return usable;
}

static uint64_t count_ticks(void) { return __builtin_ia32_rdtsc(); }

static uint64_t now_ns(struct packer *packer)
{
	if (counter_is_usable())
		return memprof_clock_now(&packer->clock, count_ticks, memprof_now_ns);
	packer->clock.last_ns = memprof_now_ns();
	return packer->clock.last_ns;
}

/* Events of a minor collection get the time of its end, so the clock need not be read. */
static uint64_t time_of(struct packer *packer, enum memprof_record_kind kind)
{
	int of_collection = kind == MEMPROF_PROMOTE || kind == MEMPROF_DEALLOC_MINOR;

	return of_collection && packer->clock.last_ns != 0 ? packer->clock.last_ns : now_ns(packer);
}

void memprof_packed_minor_gc_ended(uint32_t index, uint64_t time_ns)
{
	struct memprof_clock *clock = &packers[index].clock;

	if (time_ns > clock->last_ns)
		clock->last_ns = time_ns;
}

/* True if the batch has room for a record of this size and is not too old for it. */
static int has_room(const struct memprof_batch_buffer *buffer, uint32_t words, uint64_t time_ns)
{
	return buffer->words <= MEMPROF_PACKED_WORDS - words &&
	       time_ns - buffer->packed.head.time_ns <= MAX_BATCH_NS;
}

/* Begins an empty batch with this record's time. */
static void begin(struct memprof_batch_buffer *buffer, struct packer *packer,
		  const struct memprof_record *record, uint32_t index)
{
	buffer->packed.head.time_ns = record->time_ns;
	buffer->packed.head.base_address = (uint64_t)(uintptr_t)caml_callback_exn;
	buffer->packed.head.id_step = 1u << memprof_sample_id_shift();
	packer->tid = 0;
	packer->depth = 0;
	packer->last_sample = memprof_last_sample_id(index);
	if (is_alloc(MEMPROF_ORIGIN_KIND(record->origin)))
		packer->last_sample = record->sample_id - buffer->packed.head.id_step;
	buffer->packed.head.last_sample = packer->last_sample;
}

static void put_record(struct memprof_batch_buffer *buffer, struct packer *packer,
		       const struct memprof_record *record, value callstack,
		       const struct memprof_reported_stack *reported)
{
	const struct memprof_packed_head *head = &buffer->packed.head;
	uint32_t *to = buffer->packed.words + buffer->words;
	uint32_t tid = MEMPROF_ORIGIN_TID(record->origin);

	if (tid != packer->tid) {
		to = put(put(to, tid), MEMPROF_PACKED_THREAD);
		packer->tid = tid;
	}
	to = put(to, (record->time_ns - head->time_ns) / MEMPROF_PACKED_TIME_NS);
	if (is_alloc(MEMPROF_ORIGIN_KIND(record->origin)))
		to = put_alloc(to, packer, record, head->base_address, callstack, reported);
	else
		to = put_follow(to, packer, record);
	__atomic_store_n(&buffer->words, (uint32_t)(to - buffer->packed.words), __ATOMIC_RELEASE);
}

/* OCaml 5: true if the agent reports a domain's callstacks; while it does not, measures their
 * depth. */
static int is_switched(uint32_t index, value callstack)
{
	if (memprof_switch_is_on(index))
		return 1;
	memprof_switch_count(
		index, memprof_is_of_ocaml_code(callstack) ? (uint32_t)WORDS_OF(callstack) : 0);
	memprof_forget_reported(index);
	return 0;
}

/* Walks the callstack of the record, if the agent captures it. Returns true if the result is
 * used. */
static int report_sample(uint32_t index, const struct memprof_record *record, value callstack,
			 struct memprof_reported_stack *reported)
{
	if (memprof_agent_control.running_capture != MEMPROF_CAPTURE_BY_AGENT ||
	    !is_alloc(MEMPROF_ORIGIN_KIND(record->origin)))
		return 0;
	if (memprof_has_domains() && !is_switched(index, callstack))
		return 0;
	memprof_report_stack(index, callstack, MEMPROF_ORIGIN_SOURCE(record->origin), reported);
	packers[index].depth = 0;
	return 1;
}

void memprof_packed_append(uint32_t index, struct memprof_record *record, value callstack)
{
	struct memprof_batch_buffer *buffer = &memprof_buffers[index];
	struct packer *packer = &packers[index];
	uint32_t words = MAX_RECORD_WORDS;
	struct memprof_reported_stack reported;
	int is_reported = report_sample(index, record, callstack, &reported);

	record->time_ns = time_of(packer, MEMPROF_ORIGIN_KIND(record->origin));
	if (is_reported && buffer->count != 0)
		words = RECORD_WORDS(reported.depth - reported.shared);
	if (buffer->count != 0 && !has_room(buffer, words, record->time_ns))
		memprof_flush(index);
	if (buffer->count == 0) {
		memprof_begin_batch(buffer, MEMPROF_BATCH_PACKED);
		begin(buffer, packer, record, index);
		/* The first callstack of a batch shares nothing, so that each batch can be decoded
		 * alone. */
		reported.shared = 0;
		if (!is_reported)
			memprof_forget_reported(index);
	}
	put_record(buffer, packer, record, callstack, is_reported ? &reported : NULL);
	__atomic_store_n(&buffer->count, buffer->count + 1, __ATOMIC_RELEASE);
}
