// SPDX-License-Identifier: Apache-2.0
// Limits the total time that callers wait for something slow: a reserve that waiting consumes and
// that recovers by a share of the elapsed time. Times come from the caller.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

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
  // Returns how much of ns the reserve covered.
  std::uint64_t spend(std::uint64_t ns) {
    const std::uint64_t spent = std::min(reserve_ns_, ns);
    reserve_ns_ -= spent;
    return spent;
  }
  // Returns time that was spent but should not have been charged.
  void give_back(std::uint64_t ns) { reserve_ns_ = std::min(full_ns_, reserve_ns_ + ns); }

 private:
  std::uint64_t full_ns_;
  std::uint64_t one_in_;
  std::uint64_t reserve_ns_;
  std::uint64_t filled_at_ns_ = 0;
};

// Waits in turns. A turn counts with its planned length, even if this process was stopped or the
// machine slept meanwhile. `wait` gets the time to wait, and returns true if the event has
// occurred.
template <typename Wait>
bool wait_in_turns(std::chrono::milliseconds patience, Wait&& wait) {
  constexpr int kTurns = 20;
  const auto turn = std::max(patience / kTurns, std::chrono::milliseconds(1));
  for (auto left = patience; left.count() > 0; left -= std::min(left, turn)) {
    if (wait(std::min(left, turn))) return true;
  }
  return false;
}

// Duration of a silence during which an observer was present. An observer that was away counts at
// most kMaxAtOnce.
class ObservedSilence {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kMaxAtOnce{1};

  // silent: duration by the clock of the silence that is asked about. The result is at most that.
  std::chrono::nanoseconds so_far(Clock::time_point now, std::chrono::nanoseconds silent) {
    const std::chrono::nanoseconds passed = now - std::exchange(heard_at_, now);
    const std::chrono::nanoseconds more = std::min<std::chrono::nanoseconds>(passed, kMaxAtOnce);
    return heard_ = std::min(silent, heard_ + more);
  }

 private:
  Clock::time_point heard_at_;
  std::chrono::nanoseconds heard_{0};
};

}  // namespace memprofd
