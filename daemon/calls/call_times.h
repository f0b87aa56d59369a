// SPDX-License-Identifier: Apache-2.0
// How long calls of one function took, from the kernel's counts.
#pragma once

#include <cstdint>

#include "bpf/calls.h"

namespace memprofd {

// A duration that is known up to the width of a bucket: it is in [low, high).
struct DurationRange {
  std::uint64_t low_ns = 0;
  std::uint64_t high_ns = 0;
};

struct CallTimes {
  std::uint64_t returned = 0;
  std::uint64_t tail_calls = 0;  // ended by a call of another function in their place
  std::uint64_t raised = 0;      // left by an exception, as far as it has been noticed
  std::uint64_t running = 0;     // have not come back
  std::uint64_t lost = 0;        // have begun, their end is not known
  std::uint64_t unmatched = 0;   // ends of calls whose begin is not known; not in calls
  double seconds = 0;            // of those that returned or ended in a tail call
  // The same calls, by how long they took; (0, 0) without any.
  DurationRange p50, p90, p99;
};

CallTimes call_times(const memprof_call_counts& counts);

}  // namespace memprofd
