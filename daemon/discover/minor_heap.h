// SPDX-License-Identifier: Apache-2.0
// What a target may claim about its minor heap, and where it says it.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/discover/memory_reader.h"

namespace memprofd {

// More is no minor heap: the runtime takes at most 2^28 words (Minor_heap_max).
inline constexpr std::uint64_t kMaxMinorHeapBytes = 1ull << 40;

struct MinorHeap {
  std::uint64_t begin = 0, end = 0;  // addresses
};

// The one of the domain whose state is there; nothing when that says nothing that can be.
inline std::optional<MinorHeap> read_minor_heap(const MemoryReader& memory, std::uint64_t state,
                                                bool domains) {
  const std::uint64_t begin_at = domains ? 16 : 32;  // then the end
  MinorHeap heap;
  if (!memory.read_value(state + begin_at, heap.begin).ok() ||
      !memory.read_value(state + begin_at + 8, heap.end).ok() || heap.end < heap.begin ||
      heap.end - heap.begin > kMaxMinorHeapBytes) {
    return std::nullopt;
  }
  return heap;
}

}  // namespace memprofd
