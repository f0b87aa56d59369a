// SPDX-License-Identifier: Apache-2.0
/* A library whose memory and names a program publishes, which may close it. */
#include <stdint.h>

/* Goes with the library. What is alone on its page is of no file. */
static volatile int64_t held[2048];

const char library_name[] = "library", library_calls[] = "library_calls";

volatile int64_t* hold(int64_t n) {
  held[1024] = n;
  return &held[1024];
}
