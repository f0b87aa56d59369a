// SPDX-License-Identifier: Apache-2.0
// Children of one target that are not followed. A program may fork at any rate: the first child for
// each reason is logged, all are counted, and the sum is logged at the target's end.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>

namespace memprofd {

class SkippedChildren {
 public:
  enum Reason { kTooManyForks, kTooManyFollowed, kTooManyInspections, kRefused, kReasons };

  // Counts a child. Returns true if it is the first for this reason.
  bool add(Reason reason) { return counts_[reason]++ == 0; }
  // Number of programs that were not logged when they appeared.
  std::uint64_t not_logged() const {
    return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0},
                           [](std::uint64_t sum, std::uint64_t n) { return sum + (n - (n != 0)); });
  }

 private:
  std::array<std::uint64_t, kReasons> counts_{};
};

}  // namespace memprofd
