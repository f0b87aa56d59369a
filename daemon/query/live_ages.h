// SPDX-License-Identifier: Apache-2.0
// Splits live bytes by age. A leak consists of live bytes that get old and stay. Live memory also
// contains what a busy program has just allocated, until the next collections.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/history/snapshot.h"
#include "daemon/query/range_counter.h"

namespace memprofd {

// Youngest first. These exceed the time between collections of most programs, so that older memory
// is not just waiting for one.
inline constexpr std::array<std::uint64_t, 3> kLiveAgesSeconds{60, 600, 3600};
inline constexpr int kLiveAges = static_cast<int>(kLiveAgesSeconds.size());

struct LiveAges {
  // Number of known ages. The others are unknown, because the windows since then were dropped.
  int known = 0;
  // By age and row of the snapshot: live memory of that age or older, with the precision of the
  // history's windows and of its lifetime buckets.
  std::vector<std::vector<Portion>> older;
};

LiveAges live_ages(const ProfileSnapshot& snapshot);

}  // namespace memprofd
