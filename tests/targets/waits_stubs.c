/* SPDX-License-Identifier: Apache-2.0 */
/* C code of waits.ml. */
#include <caml/alloc.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/signals.h>
#include <sys/epoll.h>
#include <time.h>

/* Builds a list. It sometimes sleeps with the runtime lock held and a block that is not filled yet:
 * a copy of the program at such a moment would have a torn heap. */
value waits_build(value length) {
  CAMLparam1(length);
  CAMLlocal2(list, cell);
  const struct timespec nap = {0, 20000};

  list = Val_int(0);
  for (long i = 0; i < Long_val(length); i++) {
    cell = caml_alloc_small(2, 0);
    if (i % 50 == 0) nanosleep(&nap, 0);
    Field(cell, 0) = Val_long(i);
    Field(cell, 1) = list;
    list = cell;
  }
  CAMLreturn(list);
}

/* Waits until the timeout without the runtime lock; returns the result of epoll_wait. */
value waits_epoll(value timeout_ms) {
  static int epoll = -1;
  struct epoll_event event;
  int result;

  if (epoll < 0) epoll = epoll_create1(0);
  caml_enter_blocking_section();
  result = epoll_wait(epoll, &event, 1, Int_val(timeout_ms));
  caml_leave_blocking_section();
  return Val_int(result);
}
