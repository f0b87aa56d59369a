// SPDX-License-Identifier: Apache-2.0
// The minor heap that a target claims to have, and the limits of such a claim.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/discover/memory_reader.h"
#include "daemon/runtime/releases.h"

namespace memprofd {

// A larger range is no minor heap: the runtime allows at most 2^28 words (Minor_heap_max).
inline constexpr std::uint64_t kMaxMinorHeapBytes = 1ull << 40;

// Layout in a domain's state, at young_start.
struct MinorHeap {
  std::uint64_t begin = 0, end = 0;  // addresses

  std::uint64_t words() const { return (end - begin) / 8; }
};

// True if the claim is possible.
inline bool is_minor_heap(const MinorHeap& heap) {
  return heap.end >= heap.begin && heap.end - heap.begin <= kMaxMinorHeapBytes;
}

// The minor heap of the domain with that state; nullopt if its claim is impossible.
inline std::optional<MinorHeap> read_minor_heap(const MemoryReader& memory,
                                                const RuntimeFacts& facts, std::uint64_t state) {
  MinorHeap heap;
  const bool read = memory.read_value(state + facts.young_start, heap).ok();
  return read && is_minor_heap(heap) ? std::optional(heap) : std::nullopt;
}

}  // namespace memprofd
