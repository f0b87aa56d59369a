// SPDX-License-Identifier: Apache-2.0
// Converts questions and answers from and to gRPC messages. Requests come from outside: an invalid
// one is refused with kInvalidArgument and one line.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/model/measure.h"
#include "daemon/model/query.h"
#include "daemon/query/callers.h"
#include "daemon/query/diff.h"
#include "daemon/query/roll_up.h"

namespace memprofd {

inline constexpr std::uint32_t kMaxPoints = 10'000;  // of one series

// now_ns: CLOCK_REALTIME of the counts; it is also the default end of a range.
absl::StatusOr<TimeRange> from_proto(const pb::TimeRange& range, std::uint64_t now_ns);
// FrameFilter::compile checks patterns and limits.
absl::StatusOr<Filter> from_proto(const pb::Filter& filter);
absl::StatusOr<Measure> from_proto(pb::Measure order);
absl::StatusOr<GroupBy> from_proto(pb::GroupBy group_by);
absl::StatusOr<Fate> from_proto(pb::Fate fate);

pb::TimeRange to_proto(const TimeRange& range);
pb::BlockSource to_proto(Source source);
pb::BlockHeap to_proto(HeapKind heap_kind);

pb::Location to_proto(const Location& location);
pb::Lifetime lifetime_to_proto(const Counters& counters);
// Without counts.
pb::Site to_proto(const GroupName& name);
pb::Site to_proto(const GroupCounts& counts);
pb::Site to_proto(const Group& group);
pb::SiteDiff to_proto(const GroupDiff& diff);

}  // namespace memprofd
