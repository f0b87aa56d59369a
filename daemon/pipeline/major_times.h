// SPDX-License-Identifier: Apache-2.0
// The times at which a program was observed to have completed a number of major collections.
//
//   note(10 s, 3)  note(11 s, 3)  note(12 s, 7)
//   last_with_at_most(2) nothing     (3), (6) 11 s     (7) 12 s
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace memprofd {

class MajorTimes {
 public:
  // Maximum number of counts; the latest are kept.
  static constexpr std::size_t kMost = 64;

  // At that time the program had completed at most count collections. Times must not decrease.
  void note(std::uint64_t time_ns, std::uint64_t count) {
    if (seen_.empty() || seen_.back().count != count) seen_.push_back({time_ns, count});
    seen_.back().time_ns = time_ns;
    if (seen_.size() > kMost) seen_.pop_front();
  }
  // The last time at which at most count collections were completed.
  std::optional<std::uint64_t> last_with_at_most(std::uint64_t count) const {
    for (auto seen = seen_.rbegin(); seen != seen_.rend(); ++seen) {
      if (seen->count <= count) return seen->time_ns;
    }
    return std::nullopt;
  }

 private:
  struct Seen {
    std::uint64_t time_ns = 0;
    std::uint64_t count = 0;
  };
  std::deque<Seen> seen_;
};

}  // namespace memprofd
