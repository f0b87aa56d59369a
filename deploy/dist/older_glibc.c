// SPDX-License-Identifier: Apache-2.0
// The functions that code compiled for Debian 12 takes from glibc 2.35 and 2.36, made of what 2.34
// has: a release is linked with this file, and so runs on glibc 2.34.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

// ---------------------------------------------------------------- 2.35: _dl_find_object, of libgcc

struct search {
  uintptr_t pc;
  struct dl_find_object* found;
};

// Returns 1 for the object that contains the pc, -1 if it contains it and cannot be unwound.
static int is_there(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  const struct search* search = data;
  const ElfW(Phdr)* frames = NULL;
  uintptr_t begin = UINTPTR_MAX, end = 0;
  int contains = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &object->dlpi_phdr[i];
    if (header->p_type == PT_GNU_EH_FRAME) frames = header;
    if (header->p_type != PT_LOAD) continue;
    uintptr_t first = object->dlpi_addr + header->p_vaddr, last = first + header->p_memsz;
    if (search->pc >= first && search->pc < last) contains = 1;
    if (first < begin) begin = first;
    if (last > end) end = last;
  }
  if (!contains) return 0;
  if (frames == NULL) return -1;
  *search->found =
      (struct dl_find_object){.dlfo_map_start = (void*)begin,
                              .dlfo_map_end = (void*)end,
                              .dlfo_eh_frame = (void*)(object->dlpi_addr + frames->p_vaddr)};
  return 1;
}

// Finds the unwind information of the code at pc. libgcc uses no other field than dlfo_eh_frame on
// x86-64.
int _dl_find_object(void* pc, struct dl_find_object* result) {
  struct search search = {(uintptr_t)pc, result};
  return dl_iterate_phdr(is_there, &search) == 1 ? 0 : -1;
}

// ---------------------------------------------------------------- 2.35: hypot without a wrapper

double older_hypot(double x, double y);
__asm__(".symver older_hypot, hypot@GLIBC_2.2.5");
double hypot(double x, double y) { return older_hypot(x, y); }

// ---------------------------------------------------------------- 2.36: random numbers, of
// libstdc++ and libcrypt

void arc4random_buf(void* buffer, size_t size) {
  for (unsigned char* at = buffer; size > 0;) {
    const ssize_t got = getrandom(at, size, 0);
    if (got < 0 && errno != EINTR) abort();  // as glibc does: there is no error to return
    if (got <= 0) continue;
    at += got;
    size -= (size_t)got;
  }
}

uint32_t arc4random(void) {
  uint32_t number;
  arc4random_buf(&number, sizeof number);
  return number;
}
