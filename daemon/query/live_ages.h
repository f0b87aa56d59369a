// SPDX-License-Identifier: Apache-2.0
// Splits live bytes by age. A leak is live bytes that get old and stay; what a busy program has
// just allocated is live too, until the next collections.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/history/snapshot.h"
#include "daemon/query/range_counter.h"

namespace memprofd {

// Youngest first. Longer than the time between collections of most programs, so that older memory
// did not just wait for one.
inline constexpr std::array<std::uint64_t, 3> kLiveAgesSeconds{60, 600, 3600};
inline constexpr int kLiveAges = static_cast<int>(kLiveAgesSeconds.size());

struct LiveAges {
  // Ages from here on are unknown: the windows since then were dropped.
  int known = 0;
  // By age and row of the snapshot: live memory of that age or older, to the width of the history's
  // windows and of its buckets of lifetimes.
  std::vector<std::vector<Portion>> older;
};

LiveAges live_ages(const ProfileSnapshot& snapshot);

}  // namespace memprofd
