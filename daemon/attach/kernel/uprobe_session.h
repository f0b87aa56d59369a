// SPDX-License-Identifier: Apache-2.0
// A session of uprobes (BPF_TRACE_UPROBE_SESSION, Linux 6.13): a multi link (uprobe_link.h) whose
// program also runs at the return of the function, if it returned 0 at its entry; 1 skips the
// return.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/attach/kernel/uprobe_link.h"
#include "daemon/util/fd.h"

namespace memprofd {

// True if they work on this kernel; tested once.
bool uprobe_sessions_work();

// Call this before the program is loaded.
void choose_uprobe_session(bpf_program* program);

// The kernel removes the probes when the descriptor is closed.
absl::StatusOr<UniqueFd> attach_session(const bpf_program* program, int pid,
                                        const ProbeSites& sites, std::string_view what);

}  // namespace memprofd
