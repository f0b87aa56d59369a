// SPDX-License-Identifier: Apache-2.0
// Lists what is unknown about a target in observe mode: everything but its allocations. Of the
// native heap, if probes follow it, everything is known, in answers about nothing else.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "daemon/history/profile.h"
#include "daemon/model/measure.h"
#include "daemon/model/query.h"
#include "daemon/model/target_info.h"

namespace memprof::v1 {
class Site;
}

namespace memprofd {

struct ProfileSnapshot;

// kFailedPrecondition, in one line, when the question is about what became of blocks and
// that is not known of this target.
absl::Status check_known(const ProfileSnapshot& target, const Filter& filter, Measure measure);
absl::Status check_known(const ProfileSnapshot& target, const Filter& filter);  // of its lifetimes
absl::Status check_follows_blocks(const ProfileSnapshot& target, const char* what);
absl::Status check_follows_blocks(const ProfileSnapshot& target, const Filter& filter,
                                  const char* what);
// The same when it is about events of C's memory, and that is not followed.
absl::Status check_follows_c(const ProfileSnapshot& target);

// True if native blocks are followed, by the agent or, in observe mode, by probes. There the
// request is withdrawn if it cannot be met.
bool follows_native_blocks(const TargetInfo& info);
// True if the fate of the blocks that pass the filter is known.
bool follows_blocks(const ProfileSnapshot& target, const Filter& filter);

// True if the measure is known for all of them.
bool is_known(const std::vector<TargetProfile>& profiles, Measure measure);

// The measures of formats with several values: those in bytes that are known for all of them.
std::vector<const MeasureRow*> known_byte_measures(const std::vector<TargetProfile>& profiles);

// Removes values from an answer that are unknown for this target.
void leave_unknown_out(const ProfileSnapshot& target, const Filter& filter,
                       ::memprof::v1::Site& site);

}  // namespace memprofd
