// SPDX-License-Identifier: Apache-2.0
// The counts of a target in a span of its history.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/history/profile.h"
#include "daemon/history/snapshot.h"
#include "daemon/model/query.h"

namespace memprofd {

// Signed: negative if `to` is the earlier moment.
inline double ns_between(std::uint64_t from, std::uint64_t to) {
  return static_cast<double>(to) - static_cast<double>(from);
}

struct RangeRows {
  TimeRange range;               // counted range: the requested one, moved to window boundaries
  std::vector<ProfileRow> rows;  // rows with any count, by id
};

// Determines whether counters of a range include deaths, ages and late entries, which take most of
// the work. Samples, words and blocks are the same without them.
enum class Lifetimes { kCounted, kLeftOut };

// Counters of a row: allocated, promoted, deallocated and deaths belong to the range; live and its
// ages to its end. With a lifetime filter all contain only blocks that pass it, and promoted is
// known only for dead blocks. carried_since_ns: memory forgotten after that window boundary is
// included in live, without its age, because no later session follows it and its end is unknown; 0,
// or with a lifetime filter: not included.
RangeRows rows_in_range(const ProfileSnapshot& snapshot, const TimeRange& range,
                        const LifetimeFilter& lifetime, Lifetimes lifetimes = Lifetimes::kCounted,
                        std::uint64_t carried_since_ns = 0);
// Counts the lifetimes of some rows, by id, that rows_in_range() left out without a lifetime
// filter. For few rows this is cheap, because it skips most of the history.
void count_lifetimes(const ProfileSnapshot& snapshot, const TimeRange& range,
                     std::span<ProfileRow* const> rows);

}  // namespace memprofd
