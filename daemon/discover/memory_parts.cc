// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/memory_parts.h"

#include <algorithm>

#include "daemon/model/heap.h"

namespace memprofd {
namespace {

// Takes at most the remaining amount.
std::uint64_t take(std::uint64_t bytes, std::uint64_t& left) {
  const std::uint64_t taken = std::min(bytes, left);
  left -= taken;
  return taken;
}

}  // namespace

MemoryParts memory_parts(const MemoryStatus& status, const GcStats& gc) {
  const std::uint64_t heap = gc.heap_words * kWordBytes;
  const std::uint64_t free = std::min(gc.free_words.value_or(0) * kWordBytes, heap);
  std::uint64_t left = status.anonymous;
  MemoryParts parts{.files = status.files, .shared = status.shared, .swapped = status.swapped};
  parts.heap_used = take(heap - free, left);
  parts.minor_heaps = take(gc.minor_heap_words * kWordBytes, left);
  parts.heap_free = take(free, left);
  parts.other_anonymous = left;
  return parts;
}

}  // namespace memprofd
