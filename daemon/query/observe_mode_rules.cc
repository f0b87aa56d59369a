// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/observe_mode_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace memprofd {

absl::Status check_follows_blocks(const TargetSnapshot& target, const char* what) {
  if (target.info.follows_blocks()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("pid ", target.info.pid,
                                                    " is in observe mode: ", what,
                                                    " are not known; ask for allocated bytes"));
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

absl::Status check_known(const TargetSnapshot& target, Measure measure) {
  if (!measure_row(measure).needs_followed_blocks()) return absl::OkStatus();
  return check_follows_blocks(target, "live, promoted and freed bytes and lifetimes");
}

absl::Status check_known(const TargetSnapshot& target, const Filter& filter) {
  if (filter.lifetime.takes_all()) return absl::OkStatus();
  return check_follows_blocks(target, "lifetimes");
}

void leave_unknown_out(const TargetSnapshot& target, ::memprof::v1::Site& site) {
  if (target.info.follows_blocks()) return;
  site.clear_promoted();
  site.clear_live();
  site.clear_died_young();
  site.clear_died_old();
  site.clear_lifetime();
}

}  // namespace memprofd
