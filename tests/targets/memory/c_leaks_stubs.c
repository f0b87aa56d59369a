/* SPDX-License-Identifier: Apache-2.0 */
/* zlib's streams, and malloc's own count of allocated bytes. */
#define CAML_NAME_SPACE
#include <malloc.h>
#include <stdlib.h>
#include <zlib.h>

#include <caml/mlvalues.h>

value c_leaks_taken(value unit) {
  struct mallinfo2 info = mallinfo2();

  (void)unit;
  return Val_long((long)(info.uordblks + info.hblkhd));
}

/* Returns the stream as a tagged word, which the collector ignores. */
value c_leaks_deflate_init(value unit) {
  z_stream* stream = calloc(1, sizeof(*stream));

  (void)unit;
  if (!stream || deflateInit(stream, 6) != Z_OK) abort();
  return (value)stream | 1;
}
