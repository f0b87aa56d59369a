// SPDX-License-Identifier: Apache-2.0
// Selects the rows of a target's snapshot that a query is about.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/history/profile.h"
#include "daemon/history/snapshot.h"
#include "daemon/model/query.h"
#include "daemon/query/range.h"

namespace memprofd {

// The rows of the range that pass the filter; carried_since_ns as for rows_in_range().
// kInvalidArgument: see FrameFilter::compile.
absl::StatusOr<TargetProfile> select(const ProfileSnapshot& snapshot, const TimeRange& range,
                                     const Filter& filter,
                                     Lifetimes lifetimes = Lifetimes::kCounted,
                                     std::uint64_t carried_since_ns = 0);

}  // namespace memprofd
