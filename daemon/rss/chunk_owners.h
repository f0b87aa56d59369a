// SPDX-License-Identifier: Apache-2.0
// Assigns chunks of malloc to owners: the chunks to which an owner's words point, and the chunks
// reachable from those. A word points to a chunk if it is exactly the address that malloc returned.
//
//     owner    | .. | word |           chunk       | .. | word |           chunk
//                       └──────────────▶                    └──────────────▶
//
// So a pointer into the middle of a chunk, or a disguised one, is missed, and a stale word in a
// followed chunk claims too much. A chunk has one owner: one that points to it directly, otherwise
// the first that reaches it.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "daemon/discover/memory_reader.h"
#include "daemon/rss/extent_layer.h"
#include "daemon/rss/malloc_walk.h"

namespace memprofd {

class ChunkOwners {
 public:
  static constexpr std::uint32_t kNobody = ~0u;
  static constexpr std::uint32_t kExcluded = ~0u - 1;  // not memory of the program itself
  // No limit for the number of steps.
  static constexpr std::uint32_t kAllTheWay = ~0u;

  // memory must outlive this. chunks: chunks in use, in any order.
  ChunkOwners(const MemoryReader& memory, std::vector<MallocChunk> chunks);

  // Marks chunks without an owner that overlap a sealed layer; they cannot get one.
  void exclude(const ExtentLayer& layer);
  // Fast test: false if the word points to no chunk. Called for each word of a heap, most of which
  // point to memory without chunks.
  bool may_own(std::uint64_t word) const { return has_chunks_[word / kSpan % kSpans]; }
  // Assigns the chunk to which the word points, and chunks that can be reached from there in this
  // number of steps, to the owner. False if it points to no unassigned chunk.
  bool own(std::uint64_t word, std::uint32_t owner, std::uint32_t steps = kAllTheWay);
  // Follows the chunks' own pointers, after the words of all owners have been assigned.
  void follow();

  const std::vector<MallocChunk>& chunks() const { return chunks_; }  // ordered by address
  std::span<const std::uint32_t> owners() const { return owners_; }   // owner of each chunk

 private:
  struct Step {
    std::size_t chunk;
    std::uint32_t steps;
  };
  void inspect_mapping(const MallocChunk& chunk, std::uint32_t owner, std::uint32_t steps);

  // Coarse filter: ranges of addresses in which assignable chunks begin, by the low bits of their
  // numbers.
  static constexpr std::uint64_t kSpan = 1 << 20;
  static constexpr std::size_t kSpans = 1 << 16;

  const MemoryReader& memory_;
  std::vector<MallocChunk> chunks_;
  std::vector<std::uint32_t> owners_;
  std::vector<Step> waiting_;
  std::bitset<kSpans> has_chunks_;
};

}  // namespace memprofd
