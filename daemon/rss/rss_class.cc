// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/rss_class.h"

namespace memprofd {
namespace {

constexpr RssClassWords kWords[] = {
    {"ocaml_heap_used", "OCaml heap: blocks, and garbage not swept yet"},
    {"ocaml_heap_free", "OCaml heap: free"},
    {"ocaml_heap_lost", "OCaml heap: given up, but not unmapped"},
    {"minor_heaps", "OCaml minor heaps"},
    {"fiber_stacks", "OCaml stacks and fibers"},
    {"channels", "OCaml channels"},
    {"remembered_sets", "OCaml remembered sets"},
    {"frame_tables", "OCaml frame tables"},
    {"runtime_tables", "OCaml runtime: other tables"},
    {"malloc_used", "C malloc: in use"},
    {"malloc_mmapped", "C malloc: in use, mapped one by one"},
    {"malloc_free", "C malloc: free in arenas"},
    {"malloc_caches", "C malloc: free in caches"},
    {"malloc_unwalked", "C malloc: in use or free"},
    {"not_read", "not read: OCaml or C, in use or free"},
    {"thread_stacks", "thread stacks"},
    {"code", "code"},
    {"read_only_data", "read-only data"},
    {"static_data", "static data"},
    {"mapped_files", "mapped files"},
    {"shared_memory", "shared memory"},
    {"agent", "memprofd's agent"},
    {"kernel", "mapped by the kernel"},
    {"reserved", "reserved, not accessible"},
    {"other", "not known"},
};
static_assert(sizeof kWords / sizeof *kWords == kRssClasses);

}  // namespace

const RssClassWords& words_of(RssClass kind) { return kWords[static_cast<int>(kind)]; }

bool has_names(RssClass kind) {
  return kind == RssClass::kCode || kind == RssClass::kReadOnlyData ||
         kind == RssClass::kStaticData || kind == RssClass::kMappedFile ||
         kind == RssClass::kSharedMemory;
}

}  // namespace memprofd
