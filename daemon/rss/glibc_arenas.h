// SPDX-License-Identifier: Apache-2.0
// Finds the arenas of glibc's malloc in another process without symbols, which a stripped libc does
// not have. A struct malloc_state in use has a unique shape: 127 bins, of which an empty one points
// to itself twice, followed by the pointer to the next arena, in a ring.
//
//     .. | top | last_remainder | bins[254] | binmap | next | .. | system_mem | max_system_mem |
//                               ^ all offsets are relative to this: the fields before it differ
//                                 between releases
//
// Verified for glibc 2.31 to 2.41. The process may be hostile or running: every walk is bounded,
// and every number is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/discover/memory_reader.h"
#include "daemon/rss/mapping_classes.h"

namespace memprofd {

// A contiguous part of an arena that is full of chunks.
struct ArenaHeap {
  std::uint64_t begin = 0;  // start of the mapped heap itself
  std::uint64_t first_chunk = 0;
  std::uint64_t end = 0;
};

struct Arena {
  std::uint64_t bins = 0;  // address of the first bin
  std::uint64_t top = 0;   // its last chunk, which is free
  std::uint64_t system_bytes = 0;
  bool is_main = false;
  std::vector<ArenaHeap> heaps;  // empty for the main arena, which has the break heap
};

inline constexpr std::size_t kMaxArenas = 4096;
inline constexpr std::size_t kMaxArenaHeaps = 65'536;  // total over all arenas
inline constexpr std::uint64_t kArenaHeapBytes = 64u << 20;

// The main arena comes first. Empty if the data contains no main arena or it is unused.
std::vector<Arena> find_arenas(const MemoryReader& memory, std::span<const AddressSpan> data);

}  // namespace memprofd
