/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Contract between the daemon and the probes at functions (calls.bpf.c): the place of a probe, the
 * counters, and each limit. All integers are little-endian.
 */
#ifndef MEMPROF_CALLS_H
#define MEMPROF_CALLS_H

#include <linux/types.h>

/* Maximum number of functions of a request. */
#define MEMPROF_CALL_FUNCTIONS 2000u

/* Maximum number of timed calls that have not returned, in all threads and fibers. */
#define MEMPROF_CALL_OPEN 32768u
/* Maximum number of threads (OCaml 4) or fibers (OCaml 5) with such calls. */
#define MEMPROF_CALL_STACKS 8192u

enum memprof_call_place {
	MEMPROF_CALL_ENTRY = 0,	 /* counted only */
	MEMPROF_CALL_BEGIN = 1,	 /* an entry of a call that is timed */
	MEMPROF_CALL_RETURN = 2, /* a ret */
	MEMPROF_CALL_TAIL = 3,	 /* a jump to another function */
};

/* Cookie of a probe: index of the function, enum memprof_call_place, and the number of words by
 * which the stack pointer, and the pointer to free memory of the minor heap, are below their values
 * at the function's first instruction. */
#define MEMPROF_CALL_COOKIE(function, place, stack_words, young_words)                             \
	((__u64)(function) | (__u64)(place) << 16 | (__u64)(stack_words) << 24 |                   \
	 (__u64)(young_words) << 40)
#define MEMPROF_CALL_FUNCTION(cookie) ((__u32)(cookie)&0xffffu)
#define MEMPROF_CALL_PLACE(cookie) ((__u32)((cookie) >> 16) & 0xffu)
#define MEMPROF_CALL_STACK_WORDS(cookie) ((__u32)((cookie) >> 24) & 0xffffu)
#define MEMPROF_CALL_YOUNG_WORDS(cookie) ((__u32)((cookie) >> 40) & 0xffffu)

/* Buckets of durations in ns and of numbers of words: one each up to 3, then 4 between a power of
 * two and the next, so that a bucket is at most a quarter as wide as its lower limit. The last one
 * contains everything from 2^42 on. */
#define MEMPROF_CALL_BUCKETS 164u

/* Counters of one function since the probes were armed. Of timed calls: calls = returned + tails +
 * raised + lost + those that have not returned. */
struct memprof_call_counts {
	__u64 calls;
	__u64 returned;
	__u64 tails;	 /* ended by a tail call to another function */
	__u64 raised;	 /* left by an exception, if that was detected */
	__u64 lost;	 /* no room for them, or no stack was found */
	__u64 unmatched; /* ends of calls that were lost or had begun before arming */
	__u64 total_ns;	 /* of calls that returned or ended in a tail call; so is the next */
	__u64 buckets[MEMPROF_CALL_BUCKETS];
	/* Words that domains allocated during calls, without the unsized ones. */
	__u64 unsized;
	__u64 words;
	__u64 word_buckets[MEMPROF_CALL_BUCKETS];
};

/* The reason why counting has ended. */
enum memprof_calls_off {
	MEMPROF_CALLS_ON = 0,
	MEMPROF_CALLS_OVER_BUDGET = 1, /* more hits in one second than the budget allows */
	MEMPROF_CALLS_EXEC = 2,	       /* the process has called exec */
};

static inline __u32 memprof_call_bucket(__u64 ns)
{
	__u32 log = 0; /* logarithm of base 2, rounded down */
	__u64 rest = ns;
	__u32 bucket;

	if (ns < 4)
		return (__u32)ns;
	if (rest >> 32) {
		log += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		log += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		log += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		log += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		log += 2;
		rest >>= 2;
	}
	if (rest >> 1)
		log += 1;
	bucket = (log - 1) * 4 + ((__u32)(ns >> (log - 2)) & 3);
	return bucket < MEMPROF_CALL_BUCKETS ? bucket : MEMPROF_CALL_BUCKETS - 1;
}

/* The lower limit of a bucket, 1 ns above the longest duration of the previous one. */
static inline __u64 memprof_call_bucket_ns(__u32 bucket)
{
	return bucket < 4 ? bucket : (__u64)(4 + bucket % 4) << (bucket / 4 - 1);
}

#ifdef __cplusplus
static_assert(sizeof(struct memprof_call_counts) == 72 + 16 * MEMPROF_CALL_BUCKETS, "counts");
#else
_Static_assert(sizeof(struct memprof_call_counts) == 72 + 16 * MEMPROF_CALL_BUCKETS, "counts");
#endif

#endif
