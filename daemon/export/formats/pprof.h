// SPDX-License-Identifier: Apache-2.0
// Profiles in the format of pprof.
#pragma once

#include <string>
#include <vector>

#include "daemon/history/profile.h"

namespace memprofd {

// Which value tools show first.
enum class PprofKind {
  kHeap,    // inuse_space
  kAllocs,  // alloc_space
};

// A gzip'ed perftools.profiles.Profile of all targets together; empty only when
// memory runs out.
//
// Values are estimates of what the program did, not of what was sampled, rounded
// so that their sums are right (round_keeping_sum): alloc_objects, alloc_space,
// inuse_objects, inuse_space. Rows with the same callstack and labels are one
// sample. Labels: comm, heap (minor, major), source (normal, marshal, custom) and,
// as numbers, pid and thread. The comments have one line for each target with its
// sampling rate and "dropped_events=N". Callstacks are cut as stack_table.h says.
std::string pprof_profile(const std::vector<TargetProfile>& profiles, PprofKind kind);

}  // namespace memprofd
