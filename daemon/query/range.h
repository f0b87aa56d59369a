// SPDX-License-Identifier: Apache-2.0
// The counts of a target in a span of its history.
#pragma once

#include <vector>

#include "daemon/history/profile.h"
#include "daemon/history/snapshot.h"
#include "daemon/model/query.h"

namespace memprofd {

struct RangeRows {
  TimeRange range;               // what was counted: the asked one, moved to window limits
  std::vector<ProfileRow> rows;  // those with any count, by id
};

// Counters of a row: allocated, promoted, deallocated and deaths are of the
// range, live and its ages are at its end. Under a lifetime filter only blocks that pass it are
// in any of them; promoted is then known of dead blocks only.
RangeRows rows_in_range(const TargetSnapshot& snapshot, const TimeRange& range,
                        const LifetimeFilter& lifetime);

}  // namespace memprofd
