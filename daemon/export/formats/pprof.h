// SPDX-License-Identifier: Apache-2.0
// Profiles in the format of pprof.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "daemon/export/formats/stack_table.h"
#include "daemon/history/profile.h"

namespace memprofd {

// The value that tools show first.
enum class PprofKind {
  kHeap,    // inuse_space
  kAllocs,  // alloc_space
};

struct PprofLimits {
  std::size_t samples = std::numeric_limits<std::size_t>::max();
  std::size_t bytes = std::numeric_limits<std::size_t>::max();  // before compression
  StackLimits stacks;
};
// Pyroscope refuses more samples and bytes, and removes the innermost frames of deeper callstacks.
inline constexpr PprofLimits kReceiverLimits{16000, 4u << 20, {.of_a_stack = 1000}};

// A gzip'ed perftools.profiles.Profile of all targets together; empty only when
// memory runs out.
//
// Values are estimates for the whole program, not counts of samples, rounded so that their sums are
// right (round_keeping_sum): alloc_objects, alloc_space, inuse_objects, inuse_space. Rows with the
// same callstack and labels are one sample; beyond the limits the smaller samples are "(other)"
// below their callers. Labels: comm, heap (minor, major), source (normal, marshal, custom) and, as
// numbers, pid and thread. The comments have one line for each target with its sampling rate and
// "dropped_events=N". Callstacks are truncated as in stack_table.h.
//
// Times are those of the system's clock. A profile since the attach has the moment of its end and
// no duration; one of a range has the range's begin and length. Every location has a mapping with a
// build id, and a unique address other than 0 that is the same in each profile of the program.
std::string pprof_profile(const std::vector<TargetProfile>& profiles, PprofKind kind,
                          const PprofLimits& limits = {});

}  // namespace memprofd
