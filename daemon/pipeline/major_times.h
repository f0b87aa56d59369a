// SPDX-License-Identifier: Apache-2.0
// Times at which a program had completed a number of major collections, as far as they were
// observed.
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
  // Numbers that are known, the latest.
  static constexpr std::size_t kMost = 64;

  // It had ended no more than count at that time. Times do not go back.
  void note(std::uint64_t time_ns, std::uint64_t count) {
    if (seen_.empty() || seen_.back().count != count) seen_.push_back({time_ns, count});
    seen_.back().time_ns = time_ns;
    if (seen_.size() > kMost) seen_.pop_front();
  }
  // The last time at which it was so.
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
