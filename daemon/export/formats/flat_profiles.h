// SPDX-License-Identifier: Apache-2.0
// Profiles as lists of callstacks: collapsed stacks and speedscope's file format. Callstacks are
// truncated as in stack_table.h. With several targets the outermost frame of each callstack is
// "comm (pid N)".
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/export/formats/recursion.h"
#include "daemon/history/profile.h"
#include "daemon/model/query.h"

namespace memprofd {

// Collapsed stacks, as flamegraph.pl and many other tools read them: "outer;...;inner 123" per
// line, sorted, each callstack once. Whole numbers in the measure's unit whose sum is right
// (round_keeping_sum); callstacks of 0 are omitted. Functions only; ';' in names becomes ':',
// control characters become '?'. Folded, a function that calls itself is there once, without a
// count: names stay names. kInvalidArgument: kLifetime, which cannot be summed.
absl::StatusOr<std::string> collapsed_stacks(const std::vector<TargetProfile>& profiles,
                                             Measure measure,
                                             Recursion recursion = Recursion::kFull);

// A file for https://www.speedscope.app: one sampled profile in bytes for each of
// live, allocated, promoted, died young and died old, shown first the first one. Of programs
// in observe mode allocated alone.
std::string speedscope_json(const std::vector<TargetProfile>& profiles);

}  // namespace memprofd
