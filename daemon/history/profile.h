// SPDX-License-Identifier: Apache-2.0
// Input and context of a question about the memory of a target.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/aggregate/counters.h"
#include "daemon/model/alloc_class.h"
#include "daemon/model/callstack.h"
#include "daemon/model/query.h"
#include "daemon/model/time_range.h"
#include "daemon/symbolize/symbolizer.h"

namespace memprofd {

enum class Blocks;

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

// The mean grain, in words, of samples and so of memory without samples (util/estimate.h): of all
// events in a range, and of live memory at its end.
struct UnseenWords {
  double flow = 0;
  double live = 0;

  double of(Blocks blocks) const;
};

// The rows of one target in one range that passed a filter.
struct TargetProfile {
  int pid = 0;
  std::string comm;
  std::string exe;
  std::string runtime_version;
  double sampling_rate = 0;  // per word, of the running session
  std::uint64_t dropped_events = 0;
  bool follows_blocks = true;  // false in observe mode: only allocations are known
  TimeRange range;             // of the counts; both ends set
  bool since_attach = false;   // the range begins where all knowledge begins
  // Total by which the system's clock was set since the attach; times in the range do not contain
  // it.
  std::int64_t clock_set_by_ns = 0;
  UnseenWords unseen;  // of all rows in the range, whatever passes the filter
  std::vector<ProfileRow> rows;
  std::shared_ptr<const void> callstacks;         // owns those of rows
  std::shared_ptr<Symbolizer> symbolizer;         // never null
  std::shared_ptr<const LocationMatcher> hidden;  // frames to leave out; null: none
  SiteFrame site_frame = SiteFrame::kInnermost;
};

}  // namespace memprofd
