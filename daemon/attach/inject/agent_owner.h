// SPDX-License-Identifier: Apache-2.0
// The owner of an agent: the token of one memprofd in the agent's control block. Every other
// memprofd finds it there, even one in another network namespace, which does not see our
// TargetLock.
//
//   none, or its process has ended ──claim──▶ ours ──release──▶ none
//   another memprofd that runs     ──claim──▶ kAlreadyExists, nothing is changed
//
// Memory of another process cannot be compared and exchanged atomically. If two memprofds claim at
// the same moment, both write, and the one whose token remains is the owner. Each memprofd checks
// again every second.
#pragma once

#include "absl/status/status.h"
#include "daemon/attach/inject/agent_control.h"
#include "daemon/attach/inject/owner_token.h"

namespace memprofd {

// Claims the agent of process pid, and waits until a simultaneous claim by another memprofd would
// be seen. Do not call it while a thread of the target is stopped. kAlreadyExists: another memprofd
// owns the agent.
absl::Status claim_agent(const AgentControl& agent, int pid);
// kAlreadyExists: another memprofd has claimed the agent since.
absl::Status check_claim(const AgentControl& agent, int pid);
// The same check, of a token that was read from the agent.
absl::Status check_owner(const OwnerToken& token, int pid);
// kAlreadyExists: process pid is profiled by that other process; 0: unknown.
absl::Status already_profiled(int pid, int profiler);
// Clears the owner if it is this memprofd.
void release_agent(const AgentControl& agent);

}  // namespace memprofd
