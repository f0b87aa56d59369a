// SPDX-License-Identifier: Apache-2.0
// Losses that the agent counts in the target.
#pragma once

#include "daemon/attach/inject/agent_control.h"
#include "daemon/util/drops.h"

namespace memprofd {

// Sets the agent's losses to those that it has counted since `first`, an earlier status of it.
void set_agent_drops(const AgentStatus& now, const AgentStatus& first, DropCounters& drops);

}  // namespace memprofd
