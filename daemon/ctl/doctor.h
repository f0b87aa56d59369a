// SPDX-License-Identifier: Apache-2.0
// Findings that memprofctl adds to those of memprofd.
#pragma once

#include "absl/status/status.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

// Findings that need no daemon: why it could not be reached; the current user; whether the process
// exists (pid != 0).
::memprof::v1::DiagnoseResponse local_findings(const absl::Status& unreachable, int pid);

// Ok, or one line with the number of problems.
absl::Status verdict(const ::memprof::v1::DiagnoseResponse& response, int pid);

}  // namespace memprofd::ctl
