// SPDX-License-Identifier: Apache-2.0
// Groups of an answer: their identity, and their members.
#pragma once

#include <string>

#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

// The fields that identify the group, without counts.
pb::Site name_of(const pb::Site& group, pb::GroupBy group_by);
// Two answers have equal keys for the same group.
std::string group_key(const pb::Site& group, pb::GroupBy group_by);
// True if blocks with that callstack belong to the group. For groups by a number: callstacks of an
// answer to the narrowed filter.
bool in_group(const pb::Site& callstack, const pb::Site& group, pb::GroupBy group_by);
// Narrows the filter approximately to the group; a few other blocks may pass.
void narrow(const pb::Site& group, pb::GroupBy group_by, pb::Filter& filter);

}  // namespace memprofd::ctl
