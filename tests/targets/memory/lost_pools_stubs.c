// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <caml/mlvalues.h>
#include <stdio.h>
#include <sys/mman.h>

#define PAGE 4096L

static long number_of(const char* path) {
  FILE* file = fopen(path, "r");
  long number = 0;

  if (file == NULL) return 0;
  if (fscanf(file, "%ld", &number) != 1) number = 0;
  fclose(file);
  return number;
}

static long count_mappings(void) {
  FILE* file = fopen("/proc/self/maps", "r");
  long lines = 0;

  for (int c; file != NULL && (c = getc(file)) != EOF;) lines += c == '\n';
  if (file != NULL) fclose(file);
  return lines;
}

/* Leaves `leave` mappings. Every second page of an area gets other rights, which adds two each. */
value lost_pools_fill_mappings(value leave) {
  long wanted = (number_of("/proc/sys/vm/max_map_count") - Long_val(leave) - count_mappings()) / 2;
  char* area = mmap(NULL, (2 * wanted + 1) * PAGE, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  for (long i = 0; area != MAP_FAILED && i < wanted; i++)
    if (mprotect(area + (2 * i + 1) * PAGE, PAGE, PROT_READ) != 0) break;
  return Val_unit;
}
