// SPDX-License-Identifier: Apache-2.0
// Name and counts of a group of rows.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "daemon/history/profile.h"
#include "daemon/model/query.h"
#include "daemon/query/visible_frames.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// Identifies a group; other fields are empty. A row's site is its innermost visible location.
struct GroupName {
  Location location;  // the key's SiteParts; library is location.library
  std::string unit;
  std::uint32_t number = 0;           // the key's GroupNumber
  GroupBy group_by = GroupBy::kSite;  // the key; names of one key only are compared
  // kCallstack: at most VisibleFrames::kMaxLocations; the symbolizer's, never null.
  std::vector<const Location*> path;

  friend std::strong_ordering operator<=>(const GroupName& a, const GroupName& b);
  friend bool operator==(const GroupName& a, const GroupName& b) { return (a <=> b) == 0; }
  // Without the path.
  template <typename H>
  friend H AbslHashValue(H h, const GroupName& name) {
    return H::combine(std::move(h), name.location, name.unit, name.number);
  }
};

// Error of a number of blocks.
struct BlockMoments {
  double variance = 0;  // blocks squared
  double skew = 0;      // the variance times the grain, blocks cubed
  // Words of the smallest and of the largest block seen.
  double smallest_words = std::numeric_limits<double>::infinity();
  double largest_words = 0;
  Estimate unsized;  // of blocks of unknown size, which are in no number of blocks

  // Adds blocks of one size. 0 objects: the size is unknown.
  void add(const Estimate& estimate, double objects);
  // Limits of a number of blocks that stand for these words; unseen_words as of UnseenWords.
  Limits limits(double objects, double words, double unseen_words) const;
};

// Counts of several classes. How sure a number of blocks is cannot be had from the sum of
// counters, because blocks differ in size.
struct GroupCounts {
  Counters counters;
  BlockMoments allocated_objects;
  BlockMoments live_objects;
  UnseenWords unseen;  // as in TargetProfile

  // counters: of one allocation class.
  void add_class(const Counters& counters);
};

struct Group : GroupName, GroupCounts {
  // The group's callstack that weighs most by the query's measure; owned by
  // its profile. Null: no rows.
  const Callstack* heaviest = nullptr;
  // Its locations, if requested; always for kCallstack.
  std::vector<Location> callstack;

  const GroupName& name() const { return *this; }
  // frames has to be that of the profile whose rows these are.
  void set_callstack(VisibleFrames& frames);
};

// The estimate for these blocks.
Estimate estimate_of(const Counters& counters, Blocks blocks);
// In the measure's unit; of kLifetime what the median is longer than where it is not reached.
double measure_value(const Counters& counters, Measure measure);
// One standard error of it; 0 for kLifetime. For samples: how much the number varies from run to
// run.
double measure_stderr(const GroupCounts& counts, Measure measure);
// Its 95 % interval; nothing for kLifetime.
Limits measure_limits(const GroupCounts& counts, Measure measure);

}  // namespace memprofd
