// SPDX-License-Identifier: Apache-2.0
// Published values of a target in a range of time.
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
  std::string pattern;  // RE2, found anywhere in the name with its labels; empty: all
  std::size_t points = 300;
};

// Numbers for each time; NaN where it is not known.
struct PastSeries {
  std::shared_ptr<const ValueSeries> series;
  std::vector<double> lasts;
  std::vector<double> lows;  // since the time before, as are those below
  std::vector<double> highs;
};

struct PhaseSpan {
  std::string name;
  std::uint64_t begin_ns = 0;  // of the first of several that overlap; 0: before the first record
  std::uint64_t end_ns = 0;    // 0: it has not ended
};

struct PastValues {
  // If a range has more, the last ones are returned.
  static constexpr std::size_t kMaxPhases = 1000;

  TimeRange range;
  std::vector<std::uint64_t> times_ns;
  std::vector<PastSeries> series;  // without those of which nothing is known in the range
  std::vector<PhaseSpan> phases;   // that the range meets, by begin
  std::uint64_t left_out_phases = 0;
  std::vector<ValueLinePtr> lines;  // in the range
};

// kInvalidArgument: a bad pattern. Empty for a target that publishes no values.
absl::StatusOr<PastValues> past_values(const ProfileSnapshot& target, const TimeRange& range,
                                       const PastValuesQuery& query);

}  // namespace memprofd
