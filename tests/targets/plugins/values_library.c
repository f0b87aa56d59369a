// SPDX-License-Identifier: Apache-2.0
/* A library whose variable and names a program publishes; the program may close the library. */
#include <stdint.h>

/* Unmapped with the library. It is large, so that held[1024] lies on an anonymous page. */
static volatile int64_t held[2048];

const char library_name[] = "library", library_calls[] = "library_calls";

volatile int64_t* hold(int64_t n) {
  held[1024] = n;
  return &held[1024];
}
