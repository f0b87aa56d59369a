// SPDX-License-Identifier: Apache-2.0
// Data for estimates of lifetimes in a range, in addition to the deaths: the ages of blocks that
// have not died, and the age from which on each was observed.
//
// A block counts with the part of its life that lies in the range. One that existed before the
// range began enters it at its age at that time (LateEntries); its death could not have been
// observed earlier, and it does not count at younger ages.
//
//   range         b|---------------------------|e
//   one block      #####X                            born in it, died
//   another     ....####|                            born before: enters at 4, forgotten at 8
//   a third                        ##############..  alive at 13
//
// Ages at the present end are those of the live set, exact to their bucket. At an earlier end they
// are known to an octave, and those below a second to the second (range_ages.cc). The age at the
// begin of the range, for a block that leaves in a window, follows from that window's time and the
// bucket of its lifetime, spread over both.
#pragma once

#include <vector>

#include "daemon/history/snapshot.h"
#include "daemon/query/range_counter.h"

namespace memprofd {

// Selects the ages that count.
struct AgeFilter {
  LifetimeSpan span;  // limits of the age at the end
  bool allocated_in_range = false;
};

// Ages of live memory at a window boundary, by row. live: counter.live_at(time_ns).
std::vector<AgeCounts> ages_at(const RangeCounter& counter, const ProfileSnapshot& snapshot,
                               std::uint64_t time_ns, const std::vector<Portion>& live);
// Ages of live memory at the end of the range.
std::vector<AgeCounts> ages_at_end(const RangeCounter& counter, const ProfileSnapshot& snapshot,
                                   const TimeRange& range, const AgeFilter& filter);
// Ages of memory that was forgotten in the range.
std::vector<AgeCounts> forgotten_ages(const RangeCounter& counter, const ProfileSnapshot& snapshot,
                                      const TimeRange& range, const AgeFilter& filter);
// Sets `late` of counters that already contain the deaths, forgotten and ages of the range.
void add_late_entries(const RangeCounter& counter, const TimeRange& range,
                      std::vector<Counters>& counters);

// For blocks that left in a bucket, between from_ns and to_ns after the range began: the shares
// that entered the range at an age above 0, by the bucket of that age.
struct LateShare {
  int bucket = 0;
  double entered = 0;
  double missed = 0;  // share of the bucket's width, as in LateEntries
};
std::vector<LateShare> late_shares(int left_in, double from_ns, double to_ns);

}  // namespace memprofd
