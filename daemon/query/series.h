// SPDX-License-Identifier: Apache-2.0
// Measures of groups over time, from a target's history.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/history/history_window.h"
#include "daemon/history/snapshot.h"
#include "daemon/model/measure.h"
#include "daemon/model/query.h"
#include "daemon/query/roll_up.h"
#include "daemon/util/estimate.h"

namespace memprofd {

struct SeriesQuery {
  GroupBy group_by = GroupBy::kSite;
  Measure measure = Measure::kLive;
  std::size_t limit = 10;    // maximum number of series
  std::size_t points = 300;  // maximum number of points
};

struct SeriesPoint {
  std::uint64_t end_ns = 0;  // CLOCK_REALTIME
  double seconds = 0;        // length of the step that ends there
  HistoryPoint target;       // at the end
};

// One value for each point: a level at its end, or a flow per second of its step.
struct Series {
  GroupName name;
  std::vector<double> values;
  std::vector<double> stderrs;
  std::vector<Limits> limits;  // 95 %
};

struct SeriesAnswer {
  TimeRange range;
  std::vector<SeriesPoint> points;
  std::vector<Series> series;  // largest mean first
  Series other;                // sum of all other groups
};

// kInvalidArgument: a filter that does not compile or that restricts lifetimes, or a measure
// without history.
absl::StatusOr<SeriesAnswer> history_series(const ProfileSnapshot& snapshot, const TimeRange& range,
                                            const Filter& filter, const SeriesQuery& query);

}  // namespace memprofd
