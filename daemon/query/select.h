// SPDX-License-Identifier: Apache-2.0
// From a target's snapshot to the rows that a question is about.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/history/profile.h"
#include "daemon/history/snapshot.h"
#include "daemon/model/query.h"
#include "daemon/query/range.h"

namespace memprofd {

// The rows of the range that pass the filter. kInvalidArgument: see
// FrameFilter::compile.
absl::StatusOr<TargetProfile> select(const TargetSnapshot& snapshot, const TimeRange& range,
                                     const Filter& filter,
                                     Lifetimes lifetimes = Lifetimes::kCounted);

}  // namespace memprofd
