// SPDX-License-Identifier: Apache-2.0
// Converts the processor's counter, by which programs measure time, to time. Programs use it only
// where all processors of the machine count alike (enum memprof_values_clock).
#pragma once

#include <cstdint>

namespace memprofd {

// One moment.
struct TickMoment {
  std::uint64_t ticks = 0;
  std::uint64_t ns = 0;  // CLOCK_MONOTONIC
  double ns_per_tick = 1;

  // The same moment for callers that count nanoseconds of that clock.
  TickMoment in_ns() const { return {ns, ns, 1}; }
};

// The first call waits some milliseconds to measure the speed of the counter. Any thread.
TickMoment tick_now();

}  // namespace memprofd
