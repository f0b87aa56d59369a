// SPDX-License-Identifier: Apache-2.0
// Decides whether an agent can be in a program and how it gets there, before anything is done to
// the process.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/attach/attach_options.h"
#include "daemon/attach/inject/agent_control.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/attach/inject/libc_functions.h"
#include "daemon/discover/target.h"
#include "daemon/util/refusal.h"

namespace memprofd {

struct AgentPlan {
  // One line that begins with the pid. If not empty, an agent is impossible and only observe mode
  // remains; all other fields are then meaningless.
  std::string why_none;
  Refusal refusal = Refusal::kOther;  // of why_none
  std::optional<AgentStatus> there;   // status of an agent of this build that is already in the
                                      // process
  AgentLocation agent;                // location of that agent
  std::size_t others = 0;             // idle agents of other builds in the process; they stay so
  std::optional<AgentFile> file;      // the agent to inject, when there is none
  bool copy_file = false;             // the process cannot see that file
  // True if the agent's probe is placed only after the agent is loaded and the program runs again.
  // Sampling then begins a little later. Otherwise a program with many mappings would be stopped
  // while the kernel searches them for the probe's semaphore, and a copy is not a file yet.
  bool listen_late = false;
  bool may_inject = false;  // a thread may be borrowed, also to start an agent that is there
  LibcFunctions libc;       // functions of the process, if a thread may be borrowed
};

// The parts of the plan that depend on agents already in the process: there, agent, others,
// why_none. A loaded agent stays until the program ends, so an upgraded memprofd finds agents of
// earlier builds; beside one that cannot be read no other one is loaded. kFailedPrecondition if the
// process has our agent twice.
absl::StatusOr<AgentPlan> read_agent_status(const Target& target);

// Reads files of the process, so it must not run on the thread that serves all targets. An error
// means that no mode can profile the program now:
//   kFailedPrecondition  a debugger traces it, or it has our agent twice
//   kDataLoss            our agent's file is another build's
absl::StatusOr<AgentPlan> plan_agent(const Target& target, const AttachOptions& options);

}  // namespace memprofd
