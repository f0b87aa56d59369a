// SPDX-License-Identifier: Apache-2.0
// The difference between two selections: other minus base.
#pragma once

#include <vector>

#include "daemon/history/profile.h"
#include "daemon/model/measure.h"
#include "daemon/query/roll_up.h"

namespace memprofd {

struct DiffQuery {
  GroupBy group_by = GroupBy::kSite;
  Measure order = Measure::kLive;
  std::size_t limit = 0;  // 0: all
  bool with_callstack = true;
  // Changes of flows are per second of each range; changes of live memory and lifetimes are not.
  bool per_second = false;
};

// The counts of the two sides are never per second.
struct GroupDiff {
  Group base;  // has a name but no counts if the group is not in the selection
  Group other;
  // Other minus base, in the unit of measure_value().
  double change = 0;
  // Treats both sides as independent samples, so it is too large if they count the same blocks.
  double change_stderr = 0;
  Limits change_limits;  // 95 %; empty for lifetimes
};

struct DiffResult {
  std::vector<GroupDiff> diffs;  // largest absolute change first, ties by name
  GroupDiff total;               // sums without a name, including groups beyond the limit
  std::size_t n_groups = 0;      // ignores the limit
};

// Matches groups of both sides by name, even if the sides are two targets.
DiffResult diff(const TargetProfile& base, const TargetProfile& other, const DiffQuery& query);

}  // namespace memprofd
