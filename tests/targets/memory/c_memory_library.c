/* SPDX-License-Identifier: Apache-2.0 */
/* A library that c_memory loads at run time. */
#include <stdlib.h>

static void** kept;

long c_memory_library_keep(long bytes) {
  void** block = malloc((size_t)bytes);

  *block = kept;
  kept = block;
  return bytes;
}
