// SPDX-License-Identifier: Apache-2.0
// The spans of a range in which what is live can be compared: each within one session, or several
// of which none has forgotten what the one before followed (HistoryPoint::session).
//
// When sampling begins anew, what was followed is forgotten. What is live falls to nothing, and
// then rises because nothing is known of what was there before, as it does at the attach. So growth
// is a sum over sessions, each less the time in which its caches may have filled: half of it, 10
// minutes at most. After lost records it is 10 minutes in any case: a session that losses begin is
// no evidence as long as it may be filling up.
//
//   range           |---------------------------------|
//   sessions  |----1----|--------2--------|------3-----
//   spans           |===|        |========|      |====|      1: warm since before the range
//
// A block that is dropped lives on until a major collection has found it, so that what is live
// rises between any two, leak or not. Spans that are told by collections therefore begin and end
// where one has ended, as exactly as windows tell, and hold several in all.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/query/range_counter.h"

namespace memprofd {

// Both are window limits.
struct SessionSpan {
  std::uint64_t begin_ns;
  std::uint64_t end_ns;

  double seconds() const { return static_cast<double>(end_ns - begin_ns) / 1e9; }
};

enum class SpanEnds {
  kAnywhere,
  // At ends of major collections, kMinCollections of them apart in all, else there is no span;
  // anywhere where the history does not know them (trace files).
  kAtCollections,
};
inline constexpr std::size_t kMinCollections = 2;

// In order; the newest ones when there are more than a question can afford. range: resolved.
std::vector<SessionSpan> session_spans(const RangeCounter& counter, const TimeRange& range,
                                       SpanEnds ends);

}  // namespace memprofd
