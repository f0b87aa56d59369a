// SPDX-License-Identifier: Apache-2.0
// Durations of calls of one function, from the kernel's counters.
#pragma once

#include <cstdint>

#include "bpf/calls.h"

namespace memprofd {

// A number that is known up to the width of a bucket: it is in [low, high).
struct NumberRange {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};
// The number that half, nine of ten, and 99 of 100 do not exceed; (0, 0): there are none.
struct Quantiles {
  NumberRange p50, p90, p99;
};

struct CallTimes {
  std::uint64_t returned = 0;
  std::uint64_t tail_calls = 0;  // ended by a call of another function in their place
  std::uint64_t raised = 0;      // left by an exception, as far as noticed
  std::uint64_t running = 0;     // have not returned
  std::uint64_t lost = 0;        // have begun, but their end is unknown
  std::uint64_t unmatched = 0;   // ends of calls whose start is unknown; not in calls
  double seconds = 0;            // total of calls that returned or ended in a tail call
  Quantiles ns;                  // durations of the same calls
  // Words that their domains allocated from start to end, for all of these calls except `unsized`
  // ones: they continued in another domain, or nothing is known about them.
  std::uint64_t words = 0;
  std::uint64_t unsized = 0;
  Quantiles words_each;
};

CallTimes call_times(const memprof_call_counts& counts);

}  // namespace memprofd
