/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes points, timers, values, phases and log lines of C and C++ code in an OCaml program, for
 * memprofd to read from outside. The findlib package of module Memprof_values contains them.
 *
 * Creating a name again returns the same object. labels: "key=value", each on a line of its own, or
 * NULL; unit: "bytes", or NULL. Everything is copied; a name may have up to 63 bytes. Any thread
 * may call these functions; signal handlers may call only memprof_point_hit and memprof_point_add.
 */
#ifndef MEMPROF_VALUES_H
#define MEMPROF_VALUES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
	uint32_t slot;
} memprof_point;
typedef struct {
	uint32_t slot, cell;
} memprof_timer;
typedef struct {
	uint32_t slot;
} memprof_value;

memprof_point memprof_point_create(const char *name, const char *labels, const char *unit);
void memprof_point_hit(memprof_point point);
void memprof_point_add(memprof_point point, int64_t hits);

/* Measures the time between any two places: pass the result of memprof_timer_start to
 * memprof_timer_stop, from any thread. The duration also counts in a histogram. */
memprof_timer memprof_timer_create(const char *name, const char *labels);
uint64_t memprof_timer_start(void);
void memprof_timer_stop(memprof_timer timer, uint64_t started);
/* The same without a token; overlapping intervals add up. */
void memprof_timer_enter(memprof_timer timer);
void memprof_timer_leave(memprof_timer timer);

/* A named span of the program's life: a timer whose beginnings and ends are also in the log. */
memprof_timer memprof_phase_create(const char *name, const char *labels);
void memprof_phase_enter(memprof_timer phase);
void memprof_phase_leave(memprof_timer phase);

/* Publishes a variable, which viewers read in place: its memory must stay valid and must not belong
 * to a mapped file. A value that OCaml code has created with this name is not replaced. */
memprof_value memprof_value_watch_i64(const char *name, const char *labels, const char *unit,
				      const volatile int64_t *where);
memprof_value memprof_value_watch_f64(const char *name, const char *labels, const char *unit,
				      const volatile double *where);
/* Publishes the number or text that was set last. */
memprof_value memprof_value_create(const char *name, const char *labels, const char *unit);
void memprof_value_set_i64(memprof_value value, int64_t number);
void memprof_value_set_f64(memprof_value value, double number);
void memprof_value_set_bool(memprof_value value, int is_true);
void memprof_value_set_string(memprof_value value, const char *text);

/* True if a viewer is present, or was in the last minute. */
int memprof_values_observed(void);
/* Stops viewers: memprofctl values watch ends, or waits for its user. With wait_ms the calling
 * thread waits too, at most that long, until a viewer resumes it (memprofctl values resume).
 * Returns true if a viewer resumed it. */
int memprof_pause(const char *name, unsigned int wait_ms);
/* Adds a line. Lines are kept while a viewer is present: the last 256, 216 bytes of each. */
void memprof_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
