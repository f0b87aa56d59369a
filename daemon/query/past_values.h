// SPDX-License-Identifier: Apache-2.0
// Published values of a target in a time range.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/history/snapshot.h"
#include "daemon/history/value_history.h"
#include "daemon/model/query.h"

namespace memprofd {

struct PastValuesQuery {
  std::string pattern;  // RE2, searched in the name with its labels; empty: all
  std::size_t points = 300;
};

// Numbers for each time; NaN if unknown.
struct PastSeries {
  std::shared_ptr<const ValueSeries> series;
  std::vector<double> lasts;
  std::vector<double> lows;  // since the previous time, like the next ones
  std::vector<double> highs;
};

struct PhaseSpan {
  std::string name;
  std::uint64_t begin_ns = 0;  // begin of the first of several overlapping ones; 0: before the
                               // first record
  std::uint64_t end_ns = 0;    // 0: still running
};

struct PastValues {
  // Only the last ones of a range with more phases are returned.
  static constexpr std::size_t kMaxPhases = 1000;

  TimeRange range;
  std::vector<std::uint64_t> times_ns;
  std::vector<PastSeries> series;  // omits series without data in the range
  std::vector<PhaseSpan> phases;   // phases that overlap the range, ordered by begin
  std::uint64_t left_out_phases = 0;
  std::vector<ValueLinePtr> lines;  // in the range
};

// kInvalidArgument: an invalid pattern. Empty for a target that publishes no values.
absl::StatusOr<PastValues> past_values(const ProfileSnapshot& target, const TimeRange& range,
                                       const PastValuesQuery& query);

}  // namespace memprofd
