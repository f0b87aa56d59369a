// SPDX-License-Identifier: Apache-2.0
// What cannot be told of a target in observe mode: everything but what it allocated.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "daemon/history/profile.h"
#include "daemon/history/snapshot.h"
#include "daemon/model/query.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

// kFailedPrecondition, in one line, when the question is about what became of blocks and
// that is not known of this target.
absl::Status check_known(const TargetSnapshot& target, Measure measure);
absl::Status check_known(const TargetSnapshot& target, const Filter& filter);
absl::Status check_follows_blocks(const TargetSnapshot& target, const char* what);

// Whether it is known of all of them.
bool is_known(const std::vector<TargetProfile>& profiles, Measure measure);

// What formats with several values show: the measures in bytes that are known of all of them.
std::vector<const MeasureRow*> known_byte_measures(const std::vector<TargetProfile>& profiles);

// Leaves out of an answer what is not known of this target.
void leave_unknown_out(const TargetSnapshot& target, ::memprof::v1::Site& site);

}  // namespace memprofd
