// SPDX-License-Identifier: Apache-2.0
// Computes the ages of live memory at a window boundary in the past.
//
// The live set of that moment no longer exists, but earlier windows record when blocks were
// allocated. Ages are known to an octave; those below a second are unknown:
//
//   intervals of birth      3    |      2      |   1   | 0 |t      each as long as all later ones
//   a window of interval 1                      ..#..              21 born, 20 died in it
//   ends of lives in it            3 of them were born in 2: 4 are left of 1, subtract 3 from 2
//
// Each window adds the difference of allocations and deaths to its own interval, which requires no
// lifetimes. Then deaths whose lifetimes began before the interval are moved to the interval of
// their birth, by the probability over all moments in both (RangeCounter). A restart of sampling
// forgets everything, the oldest first. Memory that was live before the first relevant interval has
// no age here.
#pragma once

#include <vector>

#include "daemon/aggregate/death_counts.h"
#include "daemon/query/range_counter.h"

namespace memprofd {

// Returns one entry per row. live: RangeCounter::live_at(time_ns), before the newest boundary; the
// ages of a row add up to it.
std::vector<AgeCounts> past_ages(const RangeCounter& counter, std::uint64_t time_ns,
                                 const std::vector<Portion>& live);

}  // namespace memprofd
