// SPDX-License-Identifier: Apache-2.0
// Rules about data that is unknown in observe mode, which is everything but allocations. If probes
// follow the native heap, everything about it is known, in queries about nothing else.
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

// kFailedPrecondition, in one line, if the query requires the fate of blocks and this target's is
// unknown.
absl::Status check_known(const ProfileSnapshot& target, const Filter& filter, Measure measure);
absl::Status check_known(const ProfileSnapshot& target, const Filter& filter);  // tests the filter
                                                                                // on lifetimes
absl::Status check_follows_blocks(const ProfileSnapshot& target, const char* what);
absl::Status check_follows_blocks(const ProfileSnapshot& target, const Filter& filter,
                                  const char* what);
// The same error if the query is about native blocks and these are not followed.
absl::Status check_follows_c(const ProfileSnapshot& target);

// True if native blocks are followed, by the agent or, in observe mode, by probes. In observe mode
// a request that cannot be met is withdrawn.
bool follows_native_blocks(const TargetInfo& info);
// True if the fate of blocks that pass the filter is known.
bool follows_blocks(const ProfileSnapshot& target, const Filter& filter);

// True if all profiles know the measure.
bool is_known(const std::vector<TargetProfile>& profiles, Measure measure);

// For formats with several values: the measures in bytes that all profiles know.
std::vector<const MeasureRow*> known_byte_measures(const std::vector<TargetProfile>& profiles);

// Removes from an answer the values that are unknown for this target.
void leave_unknown_out(const ProfileSnapshot& target, const Filter& filter,
                       ::memprof::v1::Site& site);

}  // namespace memprofd
