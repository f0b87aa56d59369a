// SPDX-License-Identifier: Apache-2.0
// Address ranges of the blocks of a heap; regions that touch are one range. Every word of the heap
// is looked up here: most are integers, and a pointer usually leads close to the previous one's
// target, or into the same megabyte as an earlier one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/snapshot/block_header.h"

namespace memprofd {

class HeapStretches {
 public:
  // In order of address; a range that overlaps the previous one is shortened at its begin.
  void add(std::uint64_t begin, std::uint64_t end) {
    if (!stretches_.empty()) begin = std::max(begin, stretches_.back().end);
    if (stretches_.empty() || stretches_.back().end != begin) stretches_.push_back({begin, begin});
    stretches_.back().end = end;
  }

  // True if the header of the block to which a value points would be in a range.
  bool contain(std::uint64_t value) {
    if (value % kWordBytes != 0 || stretches_.empty()) return false;
    const std::uint64_t header = value - kWordBytes;
    if (header < stretches_.front().begin || header >= stretches_.back().end) return false;
    if (stretches_[last_].has(header)) return true;
    std::uint32_t& guess = guesses_[(header >> 20) % kGuesses];
    if (!stretches_[guess].has(header)) guess = at_or_before(header);
    if (!stretches_[guess].has(header)) return false;
    last_ = guess;
    return true;
  }

 private:
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    bool has(std::uint64_t address) const { return begin <= address && address < end; }
  };
  static constexpr std::size_t kGuesses = 1024;

  // There is one: the first begins before.
  std::uint32_t at_or_before(std::uint64_t address) const {
    const auto after = std::ranges::upper_bound(stretches_, address, {}, &Stretch::begin);
    return static_cast<std::uint32_t>(after - stretches_.begin() - 1);
  }

  std::vector<Stretch> stretches_;
  std::uint32_t last_ = 0;
  std::array<std::uint32_t, kGuesses> guesses_{};  // by megabyte
};

}  // namespace memprofd
