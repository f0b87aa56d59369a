// SPDX-License-Identifier: Apache-2.0
// Parses targets and times on command lines.
//
//   TARGET    4242 (a pid), trace.ctf (a file)
//   RANGE     FROM..TO, either may be empty: from the attach, until now
//   FROM, TO  -10m (10 minutes ago), 14:05[:30] (today, UTC), 2026-01-31T14:05:30Z,
//             or @seconds since the Unix epoch
//   both      TARGET@RANGE, TARGET or @RANGE
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

struct TargetSpec {
  int pid = 0;       // 0: the only target
  std::string file;  // empty: a running memprofd's target
};

// Digits are a pid, "" is the only target, anything else is the path of a file.
absl::StatusOr<TargetSpec> parse_target(std::string_view text);
// now_ns: CLOCK_REALTIME, for times of today. Times such as -10m stay relative to the last counts.
absl::StatusOr<pb::TimeRange> parse_range(std::string_view text, std::int64_t now_ns);

struct SelectionSpec {
  TargetSpec target;
  pb::TimeRange range;
};
absl::StatusOr<SelectionSpec> parse_selection(std::string_view text, std::int64_t now_ns);

}  // namespace memprofd::ctl
