// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/agent_drops.h"

namespace memprofd {

void set_agent_drops(const AgentStatus& now, const AgentStatus& first, DropCounters& drops) {
  drops.set(Drop::kAgentDomainInUse, now.conflicts - first.conflicts);
  drops.set(Drop::kAgentDomainsFull, now.domains_left_out - first.domains_left_out);
  drops.set(Drop::kAgentStoppedByProgram, now.program_stops - first.program_stops);
  drops.set(Drop::kAgentCallstackMoved, now.callstacks_moved - first.callstacks_moved);
  drops.set(Drop::kAgentCallstackCut, now.callstacks_cut - first.callstacks_cut);
  drops.set(Drop::kAgentUncertainDeath, now.uncertain_deaths - first.uncertain_deaths);
}

}  // namespace memprofd
