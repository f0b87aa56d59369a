// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/observe_mode_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

bool follows_native_blocks(const TargetInfo& info) {
  return info.asked.native_heap_interval.value_or(0) != 0;
}

bool follows_blocks(const ProfileSnapshot& target, const Filter& filter) {
  const bool of_c_alone = filter.heap == HeapKind::kC || filter.source == Source::kMalloc;
  return target.info.follows_blocks() || (of_c_alone && follows_native_blocks(target.info));
}

absl::Status check_follows_blocks(const ProfileSnapshot& target, const Filter& filter,
                                  const char* what) {
  return follows_blocks(target, filter) ? absl::OkStatus() : check_follows_blocks(target, what);
}

absl::Status check_follows_blocks(const ProfileSnapshot& target, const char* what) {
  if (target.info.follows_blocks()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("pid ", target.info.pid,
                                                    " is in observe mode: ", what,
                                                    " are unknown; ask for allocated bytes"));
}

absl::Status check_follows_c(const ProfileSnapshot& target) {
  if (target.info.c_heap_interval() != 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "pid ", target.info.pid, ": the native heap is not followed; attach with --c-heap"));
}

bool is_known(const std::vector<TargetProfile>& profiles, Measure measure) {
  return !measure_row(measure).needs_followed_blocks() ||
         std::all_of(profiles.begin(), profiles.end(),
                     [](const TargetProfile& profile) { return profile.follows_blocks; });
}

std::vector<const MeasureRow*> known_byte_measures(const std::vector<TargetProfile>& profiles) {
  std::vector<const MeasureRow*> known;
  for (const MeasureRow& row : measures()) {
    if (row.unit == Unit::kBytes && is_known(profiles, row.measure)) known.push_back(&row);
  }
  return known;
}

absl::Status check_known(const ProfileSnapshot& target, const Filter& filter, Measure measure) {
  if (!measure_row(measure).needs_followed_blocks()) return absl::OkStatus();
  return check_follows_blocks(target, filter, "live, promoted and freed bytes and lifetimes");
}

absl::Status check_known(const ProfileSnapshot& target, const Filter& filter) {
  if (filter.lifetime.takes_all()) return absl::OkStatus();
  return check_follows_blocks(target, filter, "lifetimes");
}

void leave_unknown_out(const ProfileSnapshot& target, const Filter& filter,
                       ::memprof::v1::Site& site) {
  if (follows_blocks(target, filter)) return;
  site.clear_promoted();
  site.clear_live();
  site.clear_died_young();
  site.clear_died_old();
  site.clear_lifetime();
}

}  // namespace memprofd
