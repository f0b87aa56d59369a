// SPDX-License-Identifier: Apache-2.0
// Input and context of a query about the memory of a target.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/aggregate/counters.h"
#include "daemon/model/alloc_class.h"
#include "daemon/model/callstack.h"
#include "daemon/model/measure.h"
#include "daemon/model/query.h"
#include "daemon/symbolize/symbolizer.h"

namespace memprofd {

// The counts of one allocation class.
struct ProfileRow {
  ClassId id;
  AllocClass alloc_class;
  const Callstack* callstack = nullptr;  // never null; not owned
  Counters counters;
};

// Tests whether a location matches any of the patterns. Thread-safe.
class LocationMatcher {
 public:
  virtual ~LocationMatcher() = default;
  virtual bool matches(const Location& location) const = 0;
};

// Words of memory that was not seen. flow, live: the mean grain, which applies to memory without
// samples (util/estimate.h), of all events in a range, and of live memory at its end. missing: the
// most that lost events stand for which are not made up for yet (ingest/lost_allocations.h). They
// may belong to any row, so each upper limit includes them.
struct UnseenWords {
  double flow = 0;
  double live = 0;
  double missing = 0;

  double of(Blocks blocks) const { return blocks == Blocks::kLive ? live : flow; }
};

// The rows of one target in one range that passed a filter.
struct TargetProfile {
  int pid = 0;
  std::string comm;
  std::string exe;
  std::string runtime_version;
  double sampling_rate = 0;  // samples per word in the running session
  std::uint64_t dropped_events = 0;
  bool follows_blocks = true;  // false in observe mode: only allocations are known
  TimeRange range;             // range of the counts; both ends are set
  bool since_attach = false;   // the range begins with the earliest known data
  // Total by which the system clock was adjusted since the attach. Times in the range do not
  // include it.
  std::int64_t clock_set_by_ns = 0;
  UnseenWords unseen;  // of all rows in the range, including those that the filter rejects
  std::vector<ProfileRow> rows;
  std::shared_ptr<const void> callstacks;         // owns the callstacks of rows
  std::shared_ptr<Symbolizer> symbolizer;         // never null
  std::shared_ptr<const LocationMatcher> hidden;  // frames to omit; null: none
  SiteFrame site_frame = SiteFrame::kInnermost;
};

}  // namespace memprofd
