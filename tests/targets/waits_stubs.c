/* SPDX-License-Identifier: Apache-2.0 */
/* C code of waits.ml. */
#include <caml/alloc.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/signals.h>
#include <sys/epoll.h>
#include <time.h>

/* A list of so many numbers. It keeps the runtime while it sleeps now and then, with a block that
 * is not filled yet: whoever copies the program then has a torn heap. */
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

/* Waits for nothing, for so long, without the runtime: what epoll_wait returns. */
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
