// SPDX-License-Identifier: Apache-2.0
// How long callers may wait for something slow, in sum: a reserve that waiting consumes and
// that comes back with a share of the time that passes. Times come from the caller.
#pragma once

#include <algorithm>
#include <cstdint>

namespace memprofd {

class WaitBudget {
 public:
  constexpr WaitBudget(std::uint64_t full_ns, std::uint64_t one_in)
      : full_ns_(full_ns), one_in_(one_in), reserve_ns_(full_ns) {}

  std::uint64_t left_ns(std::uint64_t now_ns) {
    const std::uint64_t passed = now_ns - std::min(now_ns, filled_at_ns_);
    reserve_ns_ = std::min(full_ns_, reserve_ns_ + passed / one_in_);
    filled_at_ns_ = now_ns;
    return reserve_ns_;
  }
  // How much of it there was.
  std::uint64_t spend(std::uint64_t ns) {
    const std::uint64_t spent = std::min(reserve_ns_, ns);
    reserve_ns_ -= spent;
    return spent;
  }
  // What was spent and should not have been.
  void give_back(std::uint64_t ns) { reserve_ns_ = std::min(full_ns_, reserve_ns_ + ns); }

 private:
  std::uint64_t full_ns_;
  std::uint64_t one_in_;
  std::uint64_t reserve_ns_;
  std::uint64_t filled_at_ns_ = 0;
};

}  // namespace memprofd
