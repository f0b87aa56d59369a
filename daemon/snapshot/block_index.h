// SPDX-License-Identifier: Apache-2.0
// Numbers the blocks of a heap in the order of their addresses, and finds the block of a value. One
// bit per word of the heap shows a header; a block's number is the count of headers before it: 12
// bytes for each 64 words in all.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/snapshot/heap_map.h"

namespace memprofd {

class BlockIndex {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  explicit BlockIndex(const HeapMap& map);
  // For blocks that append() adds; as large as they need.
  BlockIndex() = default;

  // The block with its header there, which is in a region of the map. All of them come before
  // number_blocks().
  void add(std::uint64_t address);
  // The next block, whose address is above those before.
  void append(std::uint64_t address, std::uint64_t words);
  // False when there are more than numbers.
  bool number_blocks();
  std::uint32_t size() const { return size_; }

  // The block that a value points to; kNone: an integer, or outside of the heap, or no block begins
  // there.
  std::uint32_t find(std::uint64_t value) const;
  // The last block that begins before that place, in the same stretch of the heap; kNone: there is
  // none. For pointers into the middle of a closure.
  std::uint32_t find_before(std::uint64_t value) const;
  // The address of a block's header.
  std::uint64_t address_of(std::uint32_t block) const;

 private:
  // Regions side by side, as one line of words.
  struct RegionRun {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t first_bit = 0;
  };
  const RegionRun* region_at(std::uint64_t address) const;
  void add_to(const RegionRun& run, std::uint64_t address);
  std::uint32_t count_before(std::uint64_t bit) const;

  std::vector<RegionRun> runs_;  // by address
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint32_t> counts_;  // blocks before each word of bits_
  std::uint32_t size_ = 0;
};

}  // namespace memprofd
