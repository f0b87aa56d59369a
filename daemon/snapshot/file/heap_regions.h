// SPDX-License-Identifier: Apache-2.0
// Address ranges of the blocks of a heap; adjacent regions form one range. Every word of the heap
// is looked up here: most words are integers, and a pointer usually leads close to the previous
// pointer's target, or into the same megabyte as an earlier one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/snapshot/block_header.h"

namespace memprofd {

class HeapRegions {
 public:
  // Call it in order of addresses. A range that overlaps the previous one loses the common part.
  void add(std::uint64_t begin, std::uint64_t end) {
    if (!regions_.empty()) begin = std::max(begin, regions_.back().end);
    if (regions_.empty() || regions_.back().end != begin) regions_.push_back({begin, begin});
    regions_.back().end = end;
  }

  // True if the header of the block to which a value points would be in a range.
  bool contain(std::uint64_t value) {
    if (value % kWordBytes != 0 || regions_.empty()) return false;
    const std::uint64_t header = value - kWordBytes;
    if (header < regions_.front().begin || header >= regions_.back().end) return false;
    if (regions_[last_].has(header)) return true;
    std::uint32_t& guess = guesses_[(header >> 20) % kGuesses];
    if (!regions_[guess].has(header)) guess = at_or_before(header);
    if (!regions_[guess].has(header)) return false;
    last_ = guess;
    return true;
  }

 private:
  struct Region {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    bool has(std::uint64_t address) const { return begin <= address && address < end; }
  };
  static constexpr std::size_t kGuesses = 1024;

  // The range exists, because the first one begins before the address.
  std::uint32_t at_or_before(std::uint64_t address) const {
    const auto after = std::ranges::upper_bound(regions_, address, {}, &Region::begin);
    return static_cast<std::uint32_t>(after - regions_.begin() - 1);
  }

  std::vector<Region> regions_;
  std::uint32_t last_ = 0;
  std::array<std::uint32_t, kGuesses> guesses_{};  // by megabyte
};

}  // namespace memprofd
