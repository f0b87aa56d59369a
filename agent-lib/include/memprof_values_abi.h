/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Values that a program publishes (points, timers, values, phases, log lines) in its own memory,
 * and the protocol by which a watcher reads them from outside.
 *
 * Finding them: the program's file has the USDT note memprof:values. The address of its semaphore
 * is that of `semaphore` in struct memprof_values_head, with which struct memprof_values begins.
 * The semaphore need not be raised, and no probe is ever hit.
 *
 * Names are keys: a second point of the same name and labels is the same slot. Slots are never
 * freed, so the contents of the first slots_used slots stay valid. When all slots are used, points
 * and timers count in a slot "other", and `refused` is incremented.
 *
 * Lanes: each point and timer has a cell for each domain (by its index; OCaml 4 has one domain),
 * which only that domain writes. All others write the last lane, atomically: C code and domains of
 * a higher index. Sums over lanes are exact.
 *
 *     slot "requests" --+-- lanes[0].points[slot]    hits of domain 0
 *                       +-- lanes[1].points[slot]    hits of domain 1
 *                       +-- lanes[127].points[slot]  hits of C code
 *
 * Torn reads: a single word is always consistent. Items of several words (timer cells, values, log
 * entries) stand between `done` and `seq`. A writer makes seq odd, writes, then sets done and then
 * seq to the next even number. A reader that reads upwards and finds both equal and even has the
 * last written item. A copy by one instruction (rep movs) goes upwards within a cache line only.
 *
 * The watcher writes observed_until_ns: until then functions are evaluated and log lines formatted.
 * On a user's request it writes resumed, control of slots, and its part of a request. If it checks
 * assertions, it writes check_until_ns and check_answered. It writes nothing else.
 */
#ifndef MEMPROF_VALUES_ABI_H
#define MEMPROF_VALUES_ABI_H

#include <linux/types.h>

#define MEMPROF_VALUES_MAGIC 0x65756c617650524dULL /* "MRPvalue" read as bytes */
#define MEMPROF_VALUES_ABI 1u

#define MEMPROF_VALUES_SLOTS 512u
#define MEMPROF_VALUES_TIMERS 128u
#define MEMPROF_VALUES_LANES 128u
#define MEMPROF_VALUES_SHARED_LANE (MEMPROF_VALUES_LANES - 1)
#define MEMPROF_VALUES_LOG 256u
#define MEMPROF_VALUES_REQUESTS 16u

/* In the environment of a program that memprofctl check has started: "1", until the agent replaces
 * it with the pid of the process whose assertions are verified, so that no child waits for the
 * verification. */
#define MEMPROF_CHECK_PID "MEMPROF_SHARE_CHECK"

/* Slots that always exist, used when there is no room for a new slot. */
#define MEMPROF_VALUES_OTHER_POINTS (MEMPROF_VALUES_SLOTS - 1)
#define MEMPROF_VALUES_OTHER_TIMERS (MEMPROF_VALUES_SLOTS - 2)
#define MEMPROF_VALUES_OTHER_VALUES (MEMPROF_VALUES_SLOTS - 3) /* forgets */
#define MEMPROF_VALUES_OWN_SLOTS MEMPROF_VALUES_OTHER_VALUES

enum memprof_slot_kind {
	MEMPROF_SLOT_NONE = 0,
	MEMPROF_SLOT_POINT = 1, /* its cells: points[its own index] */
	MEMPROF_SLOT_TIMER = 2, /* its cells: timers[slot.cell] */
	MEMPROF_SLOT_PHASE = 3, /* a timer, too */
	MEMPROF_SLOT_VALUE = 4,
	MEMPROF_SLOT_TAG = 5, /* root: see below; number: contents of empty places of weak arrays */
	MEMPROF_SLOT_REQUEST = 6, /* root: a closure; requests[slot.cell] */
	/* Assertions of Memprof_check. */
	MEMPROF_SLOT_UNREACHABLE = 7, /* root, number: as for a tag, with pairs of places */
	MEMPROF_SLOT_DIES_BEFORE = 8, /* likewise */
	MEMPROF_SLOT_REGION = 9,      /* see below */
};

/*
 * The root of a tag is an OCaml value of blocks whose first fields lead to the values it marks:
 *
 *     {ref; ..} -> {list; ..} -> {store; list} -> {array; ..} -> [weak; weak; ..] -> {_; _; marked;
 * ..}
 *
 * A list has a store for each domain that has marked something. A weak array has its marked values
 * from its third word on.
 *
 * The words of an assertion come in pairs: the marked value, then the moment (CLOCK_MONOTONIC, an
 * OCaml integer) from which on it may not be reachable, or the value that it has to die before.
 * The second word of a pair counts only while the first one is a value.
 *
 * A region is no OCaml value: number is the most that a run may leave behind, in bytes, root the
 * begin and changed_ns the end of the last run (CLOCK_MONOTONIC).
 */

enum memprof_value_type {
	MEMPROF_VALUE_INT = 1,
	MEMPROF_VALUE_FLOAT = 2,
	MEMPROF_VALUE_BOOL = 3,
	MEMPROF_VALUE_STRING = 4,
	MEMPROF_VALUE_ANY = 5, /* an OCaml value as it is */
};

/* Location of a value. */
enum memprof_value_source {
	MEMPROF_VALUE_SET = 0,	    /* in the slot: a function's result, or set by C code */
	MEMPROF_VALUE_OCAML = 1,    /* root is an OCaml value: a reference, or of type ANY */
	MEMPROF_VALUE_ADDRESS = 2,  /* root is the address of an int64_t or double */
	MEMPROF_VALUE_FUNCTION = 3, /* like SET, once it has been evaluated; root is a closure */
};

enum memprof_value_state {
	MEMPROF_VALUE_NEVER = 0, /* the function has not returned a result yet */
	MEMPROF_VALUE_THERE = 1,
	MEMPROF_VALUE_RAISED = 2, /* the function has raised an exception */
};

/* Settings of a slot, written by the watcher: off (its function is not called, its phase logs no
 * lines), and how often the function is called (0: period_ms). A watcher does not read a slot that
 * is off. Points and timers continue to count, because a test would cost as much as the count. */
#define MEMPROF_CONTROL_OFF 0x80000000u
#define MEMPROF_CONTROL_PERIOD_MS 0x7fffffffu

#define MEMPROF_SLOT_NAME 64u
#define MEMPROF_SLOT_UNIT 16u
#define MEMPROF_SLOT_LABELS 104u
#define MEMPROF_SLOT_TEXT 256u

struct memprof_slot {
	/* Texts end with a 0 when there is room for one. */
	char name[MEMPROF_SLOT_NAME];
	char unit[MEMPROF_SLOT_UNIT];
	char labels[MEMPROF_SLOT_LABELS]; /* key=value, one per line */
	__u32 kind;			  /* enum memprof_slot_kind */
	__u32 cell;			  /* index of the cell of a timer, phase or request */
	/* The rest is for values; a tag uses root and number, a request root and type. */
	__u64 done;
	__u32 type, source, state; /* enums above; type of a request: enum memprof_request_place */
	__u32 period_ms;	   /* of a function */
	__u64 root;
	__u64 number;	  /* int or bool, or the bits of a double */
	__u64 changed_ns; /* CLOCK_MONOTONIC when it was set */
	__u32 text_bytes; /* size of the string; its first MEMPROF_SLOT_TEXT bytes are in text */
	__u32 control;	  /* MEMPROF_CONTROL_...; for all kinds; written by the watcher */
	char text[MEMPROF_SLOT_TEXT];
	__u64 seq;
};

struct memprof_point_cell {
	__u64 header; /* in OCaml 4 a point is an OCaml record with one field */
	__u64 hits;   /* hits << 1; the lowest bit may be set */
};

/*
 * Histogram of intervals that were stopped with the token of their start. Bucket b counts those of
 * at least MEMPROF_BUCKET_TICKS ticks that are below the limit of the next bucket, so a bucket is
 * at most a quarter as wide as its lower limit; the last one counts all longer intervals.
 *
 *     unit 32 ticks    0 1 2 3 | 4 5 6 7 | 8 10 12 14 | 16 20 24 28 | ..
 */
#define MEMPROF_VALUES_BUCKETS 159u
#define MEMPROF_BUCKET_UNIT 5 /* log2 of ticks; some 10 ns */

static inline __u32 memprof_values_bucket(__u64 ticks)
{
	__u64 units = ticks >> MEMPROF_BUCKET_UNIT;
	__u32 log, bucket;

	if (units < 4)
		return (__u32)units;
	log = 63u - (__u32)__builtin_clzll(units);
	bucket = 4 * (log - 1) + (__u32)(units >> (log - 2) & 3);
	return bucket < MEMPROF_VALUES_BUCKETS ? bucket : MEMPROF_VALUES_BUCKETS - 1;
}

/* Returns the lower limit of a bucket. */
static inline __u64 memprof_values_bucket_ticks(__u32 bucket)
{
	if (bucket < 4)
		return (__u64)bucket << MEMPROF_BUCKET_UNIT;
	return (__u64)(4 + bucket % 4) << (bucket / 4 - 1 + MEMPROF_BUCKET_UNIT);
}

/* Each word is consistent; a reader may see an interval that is being added in only some of
 * them. */
struct memprof_timer_histogram {
	__u64 sum_ticks;
	__u64 counts[MEMPROF_VALUES_BUCKETS];
};

struct memprof_lane_histograms {
	struct memprof_timer_histogram timers[MEMPROF_VALUES_TIMERS];
};

/* Time so far: sum_ticks + (starts - stops) * now, over all lanes, modulo 2^64. */
struct memprof_timer_cell {
	__u64 done;
	__u64 starts, stops;
	__u64 sum_ticks;
	__u64 max_ticks; /* of intervals stopped with the token of their start */
	__u64 reserved[2];
	__u64 seq;
};

struct memprof_lane {
	struct memprof_point_cell points[MEMPROF_VALUES_SLOTS];
	struct memprof_timer_cell timers[MEMPROF_VALUES_TIMERS];
};

enum memprof_log_kind {
	MEMPROF_LOG_LINE = 0,
	MEMPROF_LOG_PHASE_ENTER = 1, /* slot has the phase */
	MEMPROF_LOG_PHASE_LEAVE = 2,
	MEMPROF_LOG_PAUSE = 3, /* viewers stop here; text has its name */
};

#define MEMPROF_LOG_TEXT 216u

/* Entry n is log[n % MEMPROF_VALUES_LOG]. */
struct memprof_log_entry {
	__u64 done; /* 2 * (n + 1) */
	__u64 ticks;
	__u32 kind;
	__u32 slot;
	__u32 text_bytes; /* size of the line; its first MEMPROF_LOG_TEXT bytes are in text */
	__u32 reserved;
	char text[MEMPROF_LOG_TEXT];
	__u64 seq;
};

/* Place at which the program answers a request. */
enum memprof_request_place {
	MEMPROF_REQUEST_ANYWHERE = 0, /* after a minor collection, or as the next */
	MEMPROF_REQUEST_AT_POLL = 1,  /* only where the program polls */
};

enum memprof_request_state {
	MEMPROF_REQUEST_ANSWERED = 1,
	MEMPROF_REQUEST_RAISED = 2, /* text has the exception */
};

#define MEMPROF_REQUEST_TEXT 3016u
#define MEMPROF_REQUEST_ARGUMENT 1024u

/*
 * A request to the program. The watcher writes the argument, a new number to asked, then the same
 * number to asked_last of the head. The program sets running to that number, checks asked again,
 * runs the action, and writes the answer with its number; then running is 0 again.
 *
 * A watcher that gives up sets asked to 0 and then reads running: if that is not its number, the
 * program will not run the action, because it would see the 0 after it had set running.
 */
struct memprof_request {
	/* Written by the program. */
	__u64 done;
	__u64 answered;	  /* number */
	__u64 running;	  /* number; 0: none */
	__u32 state;	  /* enum memprof_request_state */
	__u32 text_bytes; /* size of the answer; its first MEMPROF_REQUEST_TEXT bytes are in text */
	char text[MEMPROF_REQUEST_TEXT];
	__u64 seq;

	/* Written by the watcher. */
	__u64 asked; /* number; 0: nothing */
	__u32 argument_bytes;
	__u32 reserved;
	char argument[MEMPROF_REQUEST_ARGUMENT];
};

/* Unit of ticks. */
enum memprof_values_clock {
	MEMPROF_VALUES_TSC = 0,
	MEMPROF_VALUES_MONOTONIC_NS = 1,
};

struct memprof_values_head {
	__u64 magic;
	__u32 abi;
	__u16 semaphore, reserved;
	__u32 slot_bytes, lane_bytes, log_entry_bytes;
	__u32 clock;	       /* enum memprof_values_clock */
	__u32 request_bytes;   /* size of a request; 0: the library has none yet */
	__u32 histogram_bytes; /* size of a histogram; 0: the library has none yet */
	__u64 check_point; /* number of the point at which the program waits for a check; 0: none */
	__u64 reserved_line[2];

	/* Written by the program. */
	__u32 slots_used, timers_used;
	__u32 lanes_used;  /* number of lanes in use, without the last one */
	__u32 shared_used; /* 1: the last lane is in use */
	__u64 refused;	   /* slots for which there was no room */
	__u64 log_next;	   /* number of the next entry */
	__u64 log_lost;	   /* lines dropped because their entry was being written */
	__u64 forks;	   /* from the first process to this one; counts restart at each */
	__u64 pauses;	   /* so far */
	__u32 waiting;	   /* threads that wait in a pause */
	__u32 requests_used;

	/* Written by the watcher. */
	__u64 observed_until_ns; /* CLOCK_MONOTONIC; the program sets it to 0 afterwards */
	__u64 resumed;		 /* number of pauses, counted from the first, that have ended */
	__u64 asked_last;	 /* number of the last request */
	__u64 check_until_ns;	 /* CLOCK_MONOTONIC; until then the program waits for a check */
	__u64 check_answered;	 /* number of the last point that need not wait any more */
	__u64 reserved_line3[3];
};

struct memprof_values {
	union {
		struct memprof_values_head head;
		char page[4096];
	};
	struct memprof_slot slots[MEMPROF_VALUES_SLOTS];
	struct memprof_log_entry log[MEMPROF_VALUES_LOG];
	struct memprof_lane lanes[MEMPROF_VALUES_LANES];
	struct memprof_request requests[MEMPROF_VALUES_REQUESTS];
	/* Fields that an older library lacks are at the end, so that all others keep their
	 * places. */
	struct memprof_lane_histograms histograms[MEMPROF_VALUES_LANES];
};

#endif
