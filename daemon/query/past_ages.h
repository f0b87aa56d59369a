// SPDX-License-Identifier: Apache-2.0
// Computes the ages of live memory at a window limit in the past.
//
// The live set of that moment is gone, but the windows before it contain when blocks were born.
// Ages are known to an octave, and those below a second not at all:
//
//   intervals of birth      3    |      2      |   1   | 0 |t      each as long as all after it
//   a window of interval 1                      ..#..              21 born, 20 died in it
//   ends of lives in it            3 of them reach back to 2: 4 are left of 1, 3 go off 2
//
// Each window adds to its own interval what was born less what died in it, which needs no
// lifetimes; then those deaths whose lifetimes reach back before the interval are moved to the one
// they were born in, by the share of moments of both at which they were (RangeCounter). When
// following restarts the oldest are forgotten first, since all are. The memory that was live before
// the first relevant interval has no age here.
#pragma once

#include <vector>

#include "daemon/history/snapshot.h"
#include "daemon/query/range_counter.h"

namespace memprofd {

// One per row. live: RangeCounter::live_at(time_ns), before the newest limit; the ages of a row add
// up to that.
std::vector<AgeCounts> past_ages(const RangeCounter& counter, std::uint64_t time_ns,
                                 const std::vector<Portion>& live);

}  // namespace memprofd
