// SPDX-License-Identifier: Apache-2.0
// What cannot be told of a target in observe mode: everything but what it allocated; of C's memory,
// where probes follow it, all of it can, in answers about nothing else.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "daemon/history/profile.h"
#include "daemon/model/measure.h"
#include "daemon/model/query.h"

namespace memprof::v1 {
class Site;
}

namespace memprofd {

struct TargetSnapshot;

// kFailedPrecondition, in one line, when the question is about what became of blocks and
// that is not known of this target.
absl::Status check_known(const TargetSnapshot& target, const Filter& filter, Measure measure);
absl::Status check_known(const TargetSnapshot& target, const Filter& filter);  // of its lifetimes
absl::Status check_follows_blocks(const TargetSnapshot& target, const char* what);
absl::Status check_follows_blocks(const TargetSnapshot& target, const Filter& filter,
                                  const char* what);
// The same when it is about events of C's memory, and that is not followed.
absl::Status check_follows_c(const TargetSnapshot& target);

// Whether blocks of C's memory are followed, by the agent or, in observe mode, by probes: what is
// asked for is taken back there where it cannot be.
bool follows_c_blocks(const TargetInfo& info);
// Whether it is known what became of the blocks that pass.
bool follows_blocks(const TargetSnapshot& target, const Filter& filter);

// Whether it is known of all of them.
bool is_known(const std::vector<TargetProfile>& profiles, Measure measure);

// What formats with several values show: the measures in bytes that are known of all of them.
std::vector<const MeasureRow*> known_byte_measures(const std::vector<TargetProfile>& profiles);

// Leaves out of an answer what is not known of this target.
void leave_unknown_out(const TargetSnapshot& target, const Filter& filter,
                       ::memprof::v1::Site& site);

}  // namespace memprofd
