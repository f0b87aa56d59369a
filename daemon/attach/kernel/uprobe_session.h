// SPDX-License-Identifier: Apache-2.0
// A session of uprobes (BPF_TRACE_UPROBE_SESSION, Linux 6.13): a multi link (uprobe_link.h) whose
// program also runs when the function returns, if it has answered 0 at its entry. 1 leaves that
// call alone.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/attach/kernel/uprobe_link.h"
#include "daemon/util/fd.h"

namespace memprofd {

// True if they work on this kernel; tried once.
bool uprobe_sessions_work();

// Before the program is loaded.
void choose_uprobe_session(bpf_program* program);

// The probes go when the descriptor is closed.
absl::StatusOr<UniqueFd> attach_session(const bpf_program* program, int pid,
                                        const ProbeSites& sites, std::string_view what);

}  // namespace memprofd
