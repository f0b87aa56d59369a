// SPDX-License-Identifier: Apache-2.0
// Finds callers and callees of a function that allocates.
//
// All matching functions count as one, f. A row counts in
//   total       if f is anywhere among its visible locations, including inlined ones;
//   self        if f is the innermost of them;
//   caller g    if g, which is not f, directly calls f somewhere;
//   callee g    if f directly calls g, which is not f, somewhere;
// and in each of these once, however often that occurs, as for the edges of `pprof -peek`. A call
// of f by f is no edge. Name and file identify a function.
//
// Example: f = "List.map"; callstacks innermost first
//
//   10 bytes   List.map  List.map  Main.a
//    4 bytes   Cache.add  List.map  Cache.fill  List.map  Main.a
//    1 byte    Cache.add  Main.b
//
//   total  14    both that contain it; recursion counts once
//   self   10
//   callers      Main.a 14, Cache.fill 4
//   callees      Cache.add 4, Cache.fill 4
//
// So callees and self add up to total, and callers to the part that is not outermost, unless f is
// entered again through another function, like Cache.fill here.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/history/profile.h"
#include "daemon/model/measure.h"
#include "daemon/query/roll_up.h"

namespace memprofd {

struct CallersQuery {
  std::string function;  // RE2, searched in the function's name
  Measure order = Measure::kLive;
  std::size_t limit = 0;  // maximum number of callers and of callees; 0: all
};

struct CallersResult {
  // Has a name only if exactly one function matches.
  Group self;
  Group total;
  std::vector<Group> callers;  // named as for GroupBy::kFunction; largest first
  std::vector<Group> callees;
};

// kInvalidArgument: the pattern is invalid or empty. All counts are zero if no function matches.
absl::StatusOr<CallersResult> callers_of(const TargetProfile& profile, const CallersQuery& query);

}  // namespace memprofd
