/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points, timers, values, phases and log lines of C and C++ code in an OCaml program, for memprofd
 * to read from outside; the same as module Memprof_values, whose findlib package has them.
 *
 * Names are keys: who creates a name again gets the same. labels: "key=value", each on a line of
 * its own, or NULL; unit: "bytes", or NULL. All is copied: names may be up to 63 bytes long.
 * Any thread may call these; no signal handler but memprof_point_hit and memprof_point_add.
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

/* Any two places of the program: started, which memprof_timer_start returns, may go anywhere. How
 * long it took is counted, too, in a bucket of a histogram. */
memprof_timer memprof_timer_create(const char *name, const char *labels);
uint64_t memprof_timer_start(void);
void memprof_timer_stop(memprof_timer timer, uint64_t started);
/* The same without a token: intervals that overlap add up. */
void memprof_timer_enter(memprof_timer timer);
void memprof_timer_leave(memprof_timer timer);

/* A named span of the program's life: a timer whose begins and ends are in the log, too. */
memprof_timer memprof_phase_create(const char *name, const char *labels);
void memprof_phase_enter(memprof_timer phase);
void memprof_phase_leave(memprof_timer phase);

/* Read from outside, where it is: that memory must stay the program's, outside of mapped files. A
 * value that OCaml code has made by that name stays what it is. */
memprof_value memprof_value_watch_i64(const char *name, const char *labels, const char *unit,
				      const volatile int64_t *where);
memprof_value memprof_value_watch_f64(const char *name, const char *labels, const char *unit,
				      const volatile double *where);
/* What was set last. */
memprof_value memprof_value_create(const char *name, const char *labels, const char *unit);
void memprof_value_set_i64(memprof_value value, int64_t number);
void memprof_value_set_f64(memprof_value value, double number);
void memprof_value_set_bool(memprof_value value, int is_true);
void memprof_value_set_string(memprof_value value, const char *text);

/* Whether somebody looks, now or in the last minute. */
int memprof_values_observed(void);
/* Viewers stop here: memprofctl watch ends, or waits for who looks. With wait_ms the thread waits,
 * too, until one has it go on (memprofctl resume), but no longer than that. Whether one has. */
int memprof_pause(const char *name, unsigned int wait_ms);
/* Lines are kept while somebody looks: the last 256, of each the first 216 bytes. */
void memprof_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
