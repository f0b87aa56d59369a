// SPDX-License-Identifier: Apache-2.0
// What memprofctl itself has to say about findings.
#pragma once

#include "absl/status/status.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

// What can be told without a daemon: that it could not be asked, and why; who we
// are; whether the process exists (pid != 0).
::memprof::v1::DiagnoseResponse local_findings(const absl::Status& unreachable, int pid);

// Ok, or one line that says how many problems there are.
absl::Status verdict(const ::memprof::v1::DiagnoseResponse& response, int pid);

}  // namespace memprofd::ctl
