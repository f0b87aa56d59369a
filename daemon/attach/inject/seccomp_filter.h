// SPDX-License-Identifier: Apache-2.0
// Predicts how a program's seccomp filters treat the system calls that one of its threads will make
// for us. Filters are classic BPF programs over struct seccomp_data (seccomp(2), linux/filter.h).
// Each is interpreted here for every value of the unknown parts of a call: its arguments and its
// origin.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {

struct FilteredCall {
  std::uint32_t number = 0;  // x86-64 number
  const char* name = "";
  std::optional<std::uint64_t> argument1;  // set if it is always the same
};

// System calls of a borrowed thread and the agent, from the safe point to the end of sampling; and
// system calls that make a copy of the program, together with those of the copy.
extern const std::span<const FilteredCall> kAgentCalls;
extern const std::span<const FilteredCall> kCopyCalls;

// The strictest SECCOMP_RET_* with which the filter may answer the call. Returns a killing action
// for a filter that the kernel would reject, and for one with too many paths to follow.
std::uint32_t strictest_action(std::span<const sock_filter> filter, const FilteredCall& call);

using SeccompFilter = std::vector<sock_filter>;

// The first of the calls that some filter may refuse; null if all calls pass.
const FilteredCall* first_refused(std::span<const SeccompFilter> filters,
                                  std::span<const FilteredCall> calls);

// True if all threads of the process have the same filters as this thread, which may be of another
// process: the kernel shows only how many a thread has. kNotFound: the process has ended.
absl::StatusOr<bool> has_one_set_of_filters(int pid, const ProcessStatus& thread);

// kFailedPrecondition, with the reason in one line, unless the session's stopped thread of process
// pid may make all of the calls.
class PtraceSession;
absl::Status check_filters(const PtraceSession& session, int pid,
                           std::span<const FilteredCall> calls);

// Why this process cannot read the filters of others, in a few words; empty if it can. The kernel
// shows them to a process that has CAP_SYS_ADMIN and no filter of its own.
std::string why_filters_are_hidden();

}  // namespace memprofd
