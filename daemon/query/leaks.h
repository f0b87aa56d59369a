// SPDX-License-Identifier: Apache-2.0
// Finds sites whose live bytes grow.
//
// Growth is the live memory at the end of a range minus that at its start. Blocks that live through
// the range are in both and cancel, so the error comes only from the others: those allocated in the
// range and live at its end (s samples), and those allocated earlier that died in it (d samples):
//
//   growth = (s - d) / rate,   variance = (s + d) / rate^2
//
// This error separates chance from a leak, because the program might as well have freed another
// block. The actual growth is a different quantity: only sampling makes it uncertain, and its 95 %
// interval is that of the difference of the two counts, s and d (util/estimate.h).
//
// Blocks that are allocated and freed many at a time make live memory vary more. The variance is
// multiplied by the factor by which the steps of the range differ more than single blocks explain,
// and is at least that of the values' scatter about a line.
// Over several sessions of sampling, growth is the sum over their spans (session_spans.h).
//
// A site is named as a suspect if all of these indicate a leak:
//
//   ends       compared spans begin and end at ends of major collections, so that garbage does
//              not count
//   chance     growth is unlikely given its error
//   order      the steps of the range rise instead of going up and down (Kendall), which takes some
//              eight of them
//   continues  it also grows in the later half of the steps, unlike a cache that has filled up
//   survives   live memory has grown even without the blocks that were allocated since the last
//              collection began, which may be garbage that nothing has found yet
//
// The largest of these chances must be low for the number of examined sites (Benjamini and
// Hochberg), so that of a hundred answers about a program without a leak one names a site.
// tests/plain/leak_calibration_test.cc verifies that.
//
// Sites by innermost frames and by frames of the application, with no frame hidden, decide whether
// there is a suspect at all. Hidden frames only change how suspects are named. A shown group is
// named if its own chance is low enough. A suspect without such a group is named by the shown group
// with the largest growth among those that contain its blocks.
//
// A few large blocks, each of which replaces a smaller one (a Buffer, a table that is enlarged),
// are not a matter of chance, because each is certain to be sampled. They are a suspect that grows
// in steps, if each block of a site is considerably larger than the previous one, the previous ones
// are dead, and the last was allocated in the later half of the range.
//
// If no site is a suspect, a leak may be spread over many sites. Then modules are examined, and
// callers (functions, with all allocations in their callees).
//
// Suspects are ranked by their minimum growth with 95 % confidence: growth - 1.64 standard errors.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "daemon/history/snapshot.h"
#include "daemon/model/query.h"
#include "daemon/query/leak_evidence.h"
#include "daemon/query/roll_up.h"

namespace memprofd {

struct LeakGrowth {
  double growth_bytes = 0;         // within the compared time
  double growth_bytes_stderr = 0;  // chance variation due to sampling and to the program
  Limits growth_limits;            // 95 % limits of the actual growth, in bytes
  // Half of the live bytes at the end are older; 0 if nothing is live.
  double median_age_seconds = 0;
  Limits median_age_limits;  // 95 %, in seconds
  // Probability, 0 to 1, that this one site has grown at all, ignoring the number of other sites.
  double confidence = 0;
  double steadiness = 0;  // share of the range's steps in which it grew, 0 to 1
};

struct LeakSuspect : LeakGrowth {
  Group group;  // counts at the end of the range
  bool in_steps = false;
};

// Suspects that are groups of sites.
struct LeakRollUp {
  GroupBy group_by = GroupBy::kModule;  // or kFunction: including its callees
  bool certain = false;                 // false: the largest growth so far, which may be chance
  LeakSuspect suspect;
};

struct LeakAnswer {
  TimeRange range;
  double compared_seconds = 0;  // length of the part of the range in which growth was compared; 0:
                                // none
  // False: the range has too few steps. Growth in each of them would be due to chance too often for
  // a site to be named. No suspects then means that nothing is known.
  bool has_enough_steps = false;
  // The rate of a steady leak that is required for a site to be named if it does nothing else. In
  // half the time, or at half the sampling rate, it is twice as high. 0: unknown.
  double least_leak_bytes_per_second = 0;
  std::vector<LeakSuspect> suspects;
  // Groups that grow, if requested and no single site does.
  std::vector<LeakRollUp> rolled_up;
};

struct LeakQuery {
  GroupBy group_by = GroupBy::kSite;
  // Maximum number of sites with live memory at the end, suspect or not; 0: the suspects.
  std::size_t limit = 0;
  // Also examines groups of sites if no site is a suspect, which takes a few times as long.
  bool roll_up = false;
  // The share of answers about a program without a leak that may name a site.
  double false_discoveries = kFalseDiscoveries;
};

// kInvalidArgument: a filter that does not compile or that restricts lifetimes.
absl::StatusOr<LeakAnswer> find_leaks(const ProfileSnapshot& snapshot, const TimeRange& range,
                                      const Filter& filter, const LeakQuery& query);

}  // namespace memprofd
