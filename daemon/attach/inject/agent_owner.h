// SPDX-License-Identifier: Apache-2.0
// The owner of an agent: a token of one memprofd in its control block. Every other memprofd finds
// it there, even one in another network namespace, which does not see our TargetLock.
//
//   none, or its process has ended ──claim──▶ ours ──release──▶ none
//          of another that lives   ──claim──▶ kAlreadyExists, nothing is changed
//
// Memory of another process cannot be compared and exchanged atomically. If two memprofds claim at
// the same moment, both write; the one whose token remains is the owner. Each checks again every
// second.
#pragma once

#include "absl/status/status.h"
#include "daemon/attach/inject/agent_control.h"
#include "daemon/attach/inject/owner_token.h"

namespace memprofd {

// Takes the agent of process pid, and waits until another's claim at the same moment would be seen:
// not while a thread of the target is held. kAlreadyExists: of another memprofd.
absl::Status claim_agent(const AgentControl& agent, int pid);
// kAlreadyExists when another memprofd has claimed it since.
absl::Status check_claim(const AgentControl& agent, int pid);
// The same of a token that was read there.
absl::Status check_owner(const OwnerToken& token, int pid);
// kAlreadyExists: process pid is profiled by that other one; 0: unknown.
absl::Status already_profiled(int pid, int profiler);
// If it is ours.
void release_agent(const AgentControl& agent);

}  // namespace memprofd
