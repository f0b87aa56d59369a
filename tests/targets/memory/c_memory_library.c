/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded by c_memory while it runs. */
#include <stdlib.h>

static void** kept;

long c_memory_library_keep(long bytes) {
  void** block = malloc((size_t)bytes);

  *block = kept;
  kept = block;
  return bytes;
}
