// SPDX-License-Identifier: Apache-2.0
// Sites whose live bytes grow.
//
// Growth is the live memory at the end of a range minus that at its begin. Blocks that live through
// the range are in both and cancel, so its error comes from the others only: those born in the
// range and alive at its end (s samples), and those that died in it though born before (d samples):
//
//   growth = (s - d) / rate,   variance = (s + d) / rate^2
//
// That is the error that separates chance from a leak: the program might as well have freed another
// block. The actual growth is a different quantity: only sampling makes it uncertain, and its 95 %
// interval is that of the difference of the two counts, s and d (util/estimate.h).
//
// Blocks that come and go many at a time move what is live as many times as far: the variance is
// multiplied by how much more the steps of the range differ than single blocks explain.
// Over several sessions of sampling growth is the sum over their spans (session_spans.h).
//
// A site is named as a suspect when all of these speak for a leak:
//
//   ends     of the compared spans are ends of major collections: no garbage that waits for one
//   chance   of so much growth, from its error
//   order    of the steps of the range: a rise, and no going up and down (Kendall)
//   going on: it grows in the later half of the steps too: no cache that has become full
//
// The larger of the two chances has to be low for the number of examined sites (Benjamini and
// Hochberg), so that of twenty answers about a program without a leak one names a site.
// tests/plain/leak_calibration_test.cc verifies that.
//
// Whether there is a suspect at all is decided for sites by innermost frames and by frames of the
// application, with no frame hidden. Hidden frames only change how suspects are named. A shown
// group is named if its own chance is low enough. A suspect without such a group is named by the
// shown group with the largest growth among those that contain its blocks.
//
// A few large blocks, each of which replaces a smaller one (a Buffer, a table that is made larger),
// are no matter of chance: each is sampled for certain, and one more is one more. They are a
// suspect in steps, where each block of a site is a good deal larger than the one before, the ones
// before are dead, and the last was allocated in the later half of the range.
//
// If no site is a suspect, a leak may be spread over many sites: then modules are examined, and
// callers (functions, with all allocations in their callees).
//
// Suspects are ranked by what they have grown at least, with 95 % confidence:
// growth - 1.64 standard errors.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "daemon/history/snapshot.h"
#include "daemon/model/query.h"
#include "daemon/query/leak_evidence.h"
#include "daemon/query/roll_up.h"

namespace memprofd {

struct LeakGrowth {
  double growth_bytes = 0;         // in the compared time
  double growth_bytes_stderr = 0;  // by chance, of sampling and of the program
  Limits growth_limits;            // 95 %, of what has grown, in bytes
  // Half of the live bytes at the end are older; 0 when nothing is live.
  double median_age_seconds = 0;
  Limits median_age_limits;  // 95 %, in seconds
  // Probability, 0 to 1, that it has grown at all; of this one site, however many others there are.
  double confidence = 0;
  double steadiness = 0;  // share of the range's steps in which it grew, 0 to 1
};

struct LeakSuspect : LeakGrowth {
  Group group;  // counts at the end of the range
  bool in_steps = false;
};

// Suspects that are no sites.
struct LeakRollUp {
  GroupBy group_by = GroupBy::kModule;  // or kFunction: with its callees
  bool certain = false;                 // false: has grown most so far, which may be chance
  LeakSuspect suspect;
};

struct LeakAnswer {
  TimeRange range;
  double compared_seconds = 0;  // of the part of the range in which growth was compared; 0: none
  // The steady leak that a site needs to be named if it does nothing else. In half the time, or at
  // half the rate, it is twice as much. 0: unknown.
  double least_leak_bytes_per_second = 0;
  std::vector<LeakSuspect> suspects;
  // Groups that grow, if no single site does and groups were requested.
  std::vector<LeakRollUp> rolled_up;
};

struct LeakQuery {
  GroupBy group_by = GroupBy::kSite;
  // Maximum number of sites with live memory at the end, suspect or not; 0: the suspects.
  std::size_t limit = 0;
  // Looks at groups of sites where no site is a suspect, which takes a few times as long.
  bool roll_up = false;
  // The share of answers about a program without a leak that may name a site.
  double false_discoveries = kFalseDiscoveries;
};

// kInvalidArgument: a filter that does not compile or restricts lifetimes.
absl::StatusOr<LeakAnswer> find_leaks(const ProfileSnapshot& snapshot, const TimeRange& range,
                                      const Filter& filter, const LeakQuery& query);

}  // namespace memprofd
