// SPDX-License-Identifier: Apache-2.0
// Name and counts of a group of rows.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "daemon/history/profile.h"
#include "daemon/model/measure.h"
#include "daemon/model/query.h"
#include "daemon/query/visible_frames.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// Identifies a group. Fields that the key does not use are empty. A row's site is its innermost
// visible location.
struct GroupName {
  Location location;  // the key's SiteParts; library is location.library
  std::string unit;
  std::uint32_t number = 0;           // the key's GroupNumber
  GroupBy group_by = GroupBy::kSite;  // only names of the same key are compared
  // kCallstack: at most VisibleFrames::kMaxLocations entries, never null, owned by the symbolizer.
  std::vector<const Location*> path;

  friend std::strong_ordering operator<=>(const GroupName& a, const GroupName& b);
  friend bool operator==(const GroupName& a, const GroupName& b) { return (a <=> b) == 0; }
  // Ignores the path.
  template <typename H>
  friend H AbslHashValue(H h, const GroupName& name) {
    return H::combine(std::move(h), name.location, name.unit, name.number);
  }
};

// Error of a number of blocks.
struct BlockMoments {
  // The numbers if all blocks of each class have its largest, or its smallest size.
  double fewest = 0;
  double most = 0;
  double most_to_middle = 1;  // the largest ratio of most to the estimate among the classes
  double variance = 0;        // blocks squared
  double skew = 0;            // the variance times the grain, blocks cubed
  // Size in words of the smallest and of the largest block seen.
  double smallest_words = std::numeric_limits<double>::infinity();
  double largest_words = 0;
  Estimate unsized;  // blocks of unknown size, which no number of blocks includes

  // Adds blocks of one class. objects is 0 if the size is unknown.
  void add(const AllocClass& of, const Estimate& estimate, double objects);
  // Limits of a number of blocks that represent these words; unseen_words as in UnseenWords.
  Limits limits(double objects, double words, double unseen_words) const;
};

// Counts of several classes. The error of a number of blocks cannot be computed from the sum of
// counters, because blocks differ in size.
struct GroupCounts {
  Counters counters;
  BlockMoments allocated_objects;
  BlockMoments live_objects;
  UnseenWords unseen;  // as in TargetProfile

  // counters: of the class.
  void add_class(const AllocClass& of, const Counters& counters);
};

struct Group : GroupName, GroupCounts {
  // The group's callstack with the largest value of the query's measure, owned by its profile. Null
  // if there are no rows.
  const Callstack* heaviest = nullptr;
  // Locations of the heaviest callstack, if requested; always set for kCallstack.
  std::vector<Location> callstack;

  const GroupName& name() const { return *this; }
  // frames must belong to the profile of these rows.
  void set_callstack(VisibleFrames& frames);
};

// The estimate for these blocks.
Estimate estimate_of(const Counters& counters, Blocks blocks);
// The value in the measure's unit. For kLifetime, if the median is not reached, the time that it
// exceeds.
double measure_value(const Counters& counters, Measure measure);
// One standard error of the value; 0 for kLifetime. For samples: the variation of their number from
// run to run.
double measure_stderr(const GroupCounts& counts, Measure measure);
// 95 % interval of the value; empty for kLifetime.
Limits measure_limits(const GroupCounts& counts, Measure measure);

}  // namespace memprofd
