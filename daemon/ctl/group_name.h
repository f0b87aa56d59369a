// SPDX-License-Identifier: Apache-2.0
// Groups of an answer: what tells one from another, and what belongs to one.
#pragma once

#include <string>

#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

// The fields that identify the group, without counts.
pb::Site name_of(const pb::Site& group, pb::GroupBy group_by);
// Equal for one group in several answers.
std::string group_key(const pb::Site& group, pb::GroupBy group_by);
// True if blocks with that callstack belong to the group. For groups by a number: callstacks of an
// answer to the narrowed filter.
bool in_group(const pb::Site& callstack, const pb::Site& group, pb::GroupBy group_by);
// Narrows the filter to the group; what is left is a little more than that.
void narrow(const pb::Site& group, pb::GroupBy group_by, pb::Filter& filter);

}  // namespace memprofd::ctl
