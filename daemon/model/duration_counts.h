// SPDX-License-Identifier: Apache-2.0
// Counts durations of one kind of event in the buckets of a Prometheus histogram.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace memprofd {

struct DurationCounts {
  static constexpr std::array kLimits{0.001, 0.005, 0.01, 0.05, 0.1,
                                      0.5,   1.0,   5.0,  10.0, 60.0};  // seconds

  void add(double seconds) {
    const auto limit = std::ranges::lower_bound(kLimits, seconds);
    ++counts[static_cast<std::size_t>(limit - kLimits.begin())];
    sum_seconds += seconds;
  }

  // Each bucket counts durations above the previous limit and up to its own; the last has no limit.
  std::array<std::uint64_t, kLimits.size() + 1> counts{};
  double sum_seconds = 0;
};

}  // namespace memprofd
