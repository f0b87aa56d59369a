// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace memprofd {

// A range of CLOCK_REALTIME, half open. 0 means the attach for the begin, now for the end.
struct TimeRange {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  bool until_peak = false;  // overrides the others: from the attach to the peak of live bytes

  double seconds() const { return static_cast<double>(end_ns - begin_ns) / 1e9; }
  friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

}  // namespace memprofd
