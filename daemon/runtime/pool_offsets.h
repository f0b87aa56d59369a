// SPDX-License-Identifier: Apache-2.0
// Byte offsets into the structures of runtime/shared_heap.c, the same in all series with domains.
#pragma once

#include <cstdint>

namespace memprofd {

// struct caml_heap_state: four arrays of pool lists by class (with room, full, and the same two for
// unswept pools), then two lists of large blocks.
inline constexpr std::uint32_t kHeapPoolLists = 0;
inline constexpr std::uint32_t kHeapPoolArrays = 4;
inline constexpr std::uint32_t kHeapLargeLists = 1024;
inline constexpr std::uint32_t kHeapOwner = 1048;  // the domain's state
inline constexpr std::uint32_t kHeapStats = 1056;
inline constexpr std::uint32_t kHeapBytes = kHeapStats + 64;

// struct heap_stats, words.
inline constexpr std::uint32_t kStatPoolWords = 0;
inline constexpr std::uint32_t kStatPoolLiveWords = 16;
inline constexpr std::uint32_t kStatPoolLiveBlocks = 24;
inline constexpr std::uint32_t kStatPoolUnusableWords = 32;  // heads, and the rest of slots
inline constexpr std::uint32_t kStatLargeWords = 40;
inline constexpr std::uint32_t kStatLargeBlocks = 56;

// pool_freelist: after its lock and the free pools, the same data for domains that have ended.
inline constexpr std::uint32_t kOrphanStats = 48;
inline constexpr std::uint32_t kOrphanPoolLists = 112;
inline constexpr std::uint32_t kOrphanPoolArrays = 2;
inline constexpr std::uint32_t kOrphanLargeList = 624;
inline constexpr std::uint32_t kOrphanBytes = 632;

}  // namespace memprofd
