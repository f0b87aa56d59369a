// SPDX-License-Identifier: Apache-2.0
/* Published values of the C code of reports.ml. */
#include <caml/mlvalues.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memprof_values.h"

static memprof_point point;
static memprof_value text, truth;
static memprof_timer timer;
static volatile int64_t whole = 1;
static volatile double real = 0.5;

value reports_setup(value unit) {
  point = memprof_point_create("c_requests", "route=/c\nmethod=get", "requests");
  memprof_value_watch_i64("c_whole", NULL, "things", &whole);
  memprof_value_watch_f64("c_real", NULL, NULL, &real);
  text = memprof_value_create("c_text", NULL, NULL);
  truth = memprof_value_create("c_truth", NULL, NULL);
  timer = memprof_timer_create("setting in C", NULL);
  return unit;
}

static void* hit(void* count) {
  for (intptr_t i = 0; i < (intptr_t)count; i++) memprof_point_hit(point);
  return NULL;
}

value reports_hit(value count) {
  pthread_t threads[2];

  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, hit, (void*)Long_val(count));
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return Val_unit;
}

/* Sets a text at full speed; all letters of each text are the same. */
value reports_spin(value sets) {
  char letters[201];

  for (intptr_t i = 0; i < Long_val(sets); i++) {
    memset(letters, 'a' + i % 26, 200);
    letters[200] = 0;
    memprof_value_set_string(text, letters);
  }
  return Val_unit;
}

value reports_set(value n) {
  uint64_t started = memprof_timer_start();

  whole = Long_val(n);
  real = (double)Long_val(n) / 8;
  memprof_value_set_string(text, "it's set");
  memprof_value_set_bool(truth, Long_val(n) % 2);
  memprof_timer_stop(timer, started);
  return Val_unit;
}

static void* write_texts(void* is_over) {
  while (!*(volatile int*)is_over) memprof_value_set_string(text, "while a child comes to be");
  return NULL;
}

static void* make_names(void* is_over) {
  while (!*(volatile int*)is_over) memprof_point_create("a name that is looked for", NULL, NULL);
  return NULL;
}

/* Forks children while threads write, until a child cannot write. Returns how many could. */
value reports_forks(value count) {
  static volatile int is_over;
  pthread_t threads[2];
  intptr_t well = 0;
  int status = 0;

  pthread_create(&threads[0], NULL, write_texts, (void*)&is_over);
  pthread_create(&threads[1], NULL, make_names, (void*)&is_over);
  for (; well < Long_val(count) && status == 0; well += status == 0) {
    pid_t child = fork();

    if (child == 0) {
      alarm(10);
      memprof_value_set_string(text, "by a child");
      memprof_point_create("a name that is looked for", NULL, NULL);
      _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) break;
  }
  is_over = 1;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return Val_long(well);
}

/* Opens a library and publishes its variable, 7; an empty path closes it. Returns success. */
value reports_library(value path) {
  static void* library;
  const char* file = String_val(path);
  volatile int64_t* (*hold)(int64_t);

  if (!*file) return Val_bool(library && dlclose(library) == 0);
  library = dlopen(file, RTLD_NOW);
  if (!library) return Val_false;
  hold = (volatile int64_t * (*)(int64_t)) dlsym(library, "hold");
  memprof_value_watch_i64(dlsym(library, "library_name"), NULL, NULL, hold(7));
  memprof_point_hit(memprof_point_create(dlsym(library, "library_calls"), NULL, NULL));
  return Val_true;
}
