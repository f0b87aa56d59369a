// SPDX-License-Identifier: Apache-2.0
// What a target may claim about its minor heap, and where it says it.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/discover/memory_reader.h"
#include "daemon/runtime/releases.h"

namespace memprofd {

// More is no minor heap: the runtime takes at most 2^28 words (Minor_heap_max).
inline constexpr std::uint64_t kMaxMinorHeapBytes = 1ull << 40;

// As it stands in the state of a domain, at young_start.
struct MinorHeap {
  std::uint64_t begin = 0, end = 0;  // addresses

  std::uint64_t words() const { return (end - begin) / 8; }
};

// Whether that can be.
inline bool is_minor_heap(const MinorHeap& heap) {
  return heap.end >= heap.begin && heap.end - heap.begin <= kMaxMinorHeapBytes;
}

// The one of the domain whose state is there; nothing when that says nothing that can be.
inline std::optional<MinorHeap> read_minor_heap(const MemoryReader& memory,
                                                const RuntimeFacts& facts, std::uint64_t state) {
  MinorHeap heap;
  const bool read = memory.read_value(state + facts.young_start, heap).ok();
  return read && is_minor_heap(heap) ? std::optional(heap) : std::nullopt;
}

}  // namespace memprofd
