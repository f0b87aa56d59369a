// SPDX-License-Identifier: Apache-2.0
// The spans of a range in which what is live can be compared: each within one session.
//
// When sampling begins anew, what was followed is forgotten. What is live falls to nothing, and
// then rises because nothing is known of what was there before, as it does at the attach. So growth
// is a sum over sessions, each less the time in which its caches may have filled: half of it, 10
// minutes at most.
//
//   range         |-----------------------------------|
//   sessions  ---1-----|--------2--------|------3------
//   spans         |====|        |========|      |=====|
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

// In order; the newest ones when there are more than a question can afford. range: resolved.
std::vector<SessionSpan> session_spans(const RangeCounter& counter, const TimeRange& range);

}  // namespace memprofd
