// SPDX-License-Identifier: Apache-2.0
// The spans of a range in which live memory can be compared: each within one session, or within
// several sessions that continued to follow the blocks of the previous one (HistoryPoint::session).
//
// When sampling restarts, followed blocks are forgotten. Live memory falls to zero and then rises,
// because older memory is unknown, as after the attach. So growth is a sum over sessions, without
// the time in which the session's caches may have filled: a quarter of it, at most 10 minutes.
// After lost records it is always 10 minutes, because such a session is no evidence while it may be
// filling up.
//
//   range           |---------------------------------|
//   sessions  |----1----|--------2--------|------3-----
//   spans           |===|    |============|    |======|      1: warm since before the range
//
// An unreachable block counts as live until a major collection has found it, so live memory rises
// between any two collections, with or without a leak. Spans therefore begin and end at ends of
// major collections, to the precision of windows, and contain several of them.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/query/range_counter.h"

namespace memprofd {

// Both are window boundaries.
struct SessionSpan {
  std::uint64_t begin_ns;
  std::uint64_t end_ns;

  double seconds() const { return static_cast<double>(end_ns - begin_ns) / 1e9; }
};

enum class SpanEnds {
  kAnywhere,
  // At ends of major collections. There is no span unless these are at least kMinCollections apart.
  // Anywhere if the history does not contain collections (trace files).
  kAtCollections,
};
inline constexpr std::size_t kMinCollections = 2;

// Returns the spans in order; only the newest if there are too many for a query. range: resolved.
std::vector<SessionSpan> session_spans(const RangeCounter& counter, const TimeRange& range,
                                       SpanEnds ends);

}  // namespace memprofd
