// SPDX-License-Identifier: Apache-2.0
// The arenas of glibc's malloc in another process, without symbols, which a stripped libc does not
// have. A struct malloc_state that is in use has a shape that nothing else has: 127 bins, of which
// an empty one points to itself twice, and behind them the next arena, in a ring.
//
//     .. | top | last_remainder | bins[254] | binmap | next | .. | system_mem | max_system_mem |
//                               ^ all places are told from here: what comes before differs
//                                 between releases
//
// Seen the same in glibc 2.31 to 2.41. The process may be hostile or run meanwhile: every walk is
// bounded, every number checked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/discover/memory_reader.h"
#include "daemon/rss/mapping_classes.h"

namespace memprofd {

// A stretch of an arena that is full of chunks.
struct ArenaHeap {
  std::uint64_t begin = 0;  // of the heap itself, as it is mapped
  std::uint64_t first_chunk = 0;
  std::uint64_t end = 0;
};

struct Arena {
  std::uint64_t bins = 0;  // address of the first bin
  std::uint64_t top = 0;   // its last chunk, which is free
  std::uint64_t system_bytes = 0;
  bool is_main = false;
  std::vector<ArenaHeap> heaps;  // of the main one: none, it has the break heap
};

inline constexpr std::size_t kMaxArenas = 4096;
inline constexpr std::size_t kMaxArenaHeaps = 65'536;  // of all
inline constexpr std::uint64_t kArenaHeapBytes = 64u << 20;

// The main arena first; empty when there is none in the data, or it is not in use.
std::vector<Arena> find_arenas(const MemoryReader& memory, std::span<const AddressSpan> data);

}  // namespace memprofd
