// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/select.h"

#include <utility>
#include <vector>

#include "daemon/query/frame_filter.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/query/range.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

UnseenWords unseen_words(const std::vector<ProfileRow>& rows, double rate, double missing) {
  Estimate allocated, live;
  for (const ProfileRow& row : rows) {
    allocated += row.counters.allocated;
    live += row.counters.live;
  }
  return {allocated.grain_or(rate), live.grain_or(rate), missing};
}

// Events that are missing were lost a moment ago.
bool reaches_now(const TimeRange& range, const ProfileSnapshot& snapshot) {
  return range.end_ns == 0 || range.end_ns >= snapshot.now_ns();
}

// A trace of the native heap calls its memory external, so a filter for the native heap selects
// that.
Filter in_words_of(const TargetInfo& info, Filter filter) {
  if (!info.external_is_c) return filter;
  if (filter.heap == HeapKind::kC) filter.heap = HeapKind::kExternal;
  if (filter.source == Source::kMalloc) filter.source = Source::kCustom;
  return filter;
}

}  // namespace

absl::StatusOr<TargetProfile> select(const ProfileSnapshot& snapshot, const TimeRange& range,
                                     const Filter& filter, Lifetimes lifetimes,
                                     std::uint64_t carried_since_ns) {
  ASSIGN_OR_RETURN(FrameFilter compiled, FrameFilter::compile(in_words_of(snapshot.info, filter)));
  RangeRows counted = rows_in_range(snapshot, range, filter.lifetime, lifetimes, carried_since_ns);
  TargetProfile profile;
  profile.pid = snapshot.info.pid;
  profile.comm = snapshot.info.comm;
  profile.exe = snapshot.info.exe;
  profile.runtime_version = snapshot.info.runtime_version;
  profile.sampling_rate = snapshot.info.sampling_rate;
  profile.follows_blocks = follows_blocks(snapshot, filter);
  profile.dropped_events = snapshot.drops.lost();
  profile.range = counted.range;
  profile.since_attach = range.begin_ns == 0;
  profile.clock_set_by_ns = snapshot.clock_set_by_ns();
  profile.unseen = unseen_words(counted.rows, profile.sampling_rate,
                                reaches_now(range, snapshot) ? snapshot.missing_words : 0);
  profile.rows = std::move(counted.rows);
  profile.callstacks = snapshot.callstacks;
  profile.symbolizer = snapshot.symbolizer;
  profile.hidden = compiled.hidden();
  profile.site_frame = compiled.site_frame();
  RowFilter rows(std::move(compiled), *snapshot.symbolizer);
  std::erase_if(profile.rows, [&](const ProfileRow& row) {
    return !rows.passes(row.alloc_class, *row.callstack);
  });
  return profile;
}

}  // namespace memprofd
