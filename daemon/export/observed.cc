#include "daemon/export/observed.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace memprofd {

absl::Status check_follows_blocks(const TargetSnapshot& target, const char* what) {
  if (target.info.follows_blocks()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("pid ", target.info.pid,
                                                    " is in observe mode: ", what,
                                                    " are not known; ask for allocated bytes"));
}

bool needs_followed_blocks(Measure measure) {
  return measure != Measure::kAllocated && measure != Measure::kAllocatedObjects &&
         measure != Measure::kSamples;
}

bool is_known(const std::vector<TargetProfile>& profiles, Measure measure) {
  return !needs_followed_blocks(measure) ||
         std::all_of(profiles.begin(), profiles.end(),
                     [](const TargetProfile& profile) { return profile.follows_blocks; });
}

absl::Status check_known(const TargetSnapshot& target, Measure measure) {
  if (!needs_followed_blocks(measure)) return absl::OkStatus();
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
