// SPDX-License-Identifier: Apache-2.0
// memprofctl run --pid: a process that runs already, from now on, without memprofd.
#pragma once

#include "absl/status/status.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/ctl/run_files.h"
#include "daemon/ctl/run_options.h"

namespace memprofd::ctl {

// Profiles process pid until it ends, a signal comes or options.duration is over; then
// writes the files and prints the report. rate: samples per word.
absl::Status profile_running(int pid, const RunOptions& options, const AgentFile& agent,
                             double rate, RunFiles& files);

}  // namespace memprofd::ctl
