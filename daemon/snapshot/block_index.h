// SPDX-License-Identifier: Apache-2.0
// Numbers the blocks of a heap in address order, and finds the block of a value. One bit per word
// of the heap marks a header; a block's number is the count of headers before it. This takes 12
// bytes per 64 words.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/snapshot/heap_map.h"

namespace memprofd {

class BlockIndex {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  explicit BlockIndex(const HeapMap& map);
  // For blocks added with append(); grows as needed.
  BlockIndex() = default;

  // Adds the block whose header is at that address, in a region of the map. Call it for all blocks
  // before number_blocks().
  void add(std::uint64_t address);
  // Adds the next block, whose address must be above all previous ones.
  void append(std::uint64_t address, std::uint64_t words);
  // Returns false if there are more blocks than numbers.
  bool number_blocks();
  std::uint32_t size() const { return size_; }

  // The block that a value points to; kNone: an integer, an address outside of the heap, or not the
  // start of a block.
  std::uint32_t find(std::uint64_t value) const;
  // The last block that begins before that address, in the same contiguous part of the heap; kNone:
  // there is none. For pointers into the middle of a closure.
  std::uint32_t find_before(std::uint64_t value) const;
  // The address of a block's header.
  std::uint64_t address_of(std::uint32_t block) const;

 private:
  // Adjacent regions, as one sequence of words.
  struct RegionRun {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t first_bit = 0;
  };
  const RegionRun* region_at(std::uint64_t address) const;
  void add_to(const RegionRun& run, std::uint64_t address);
  std::uint32_t count_before(std::uint64_t bit) const;

  std::vector<RegionRun> runs_;  // ordered by address
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint32_t> counts_;  // number of blocks before each word of bits_
  std::uint32_t size_ = 0;
};

}  // namespace memprofd
