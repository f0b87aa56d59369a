// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/discoveries.h"

#include <map>
#include <string>
#include <utility>

#include "daemon/history/snapshot.h"

namespace memprofd {
namespace {

Discovery outcome_of(const TargetInfo& info) {
  switch (info.state) {
    case TargetState::kWaiting:
      return Discovery::kWaiting;
    case TargetState::kSampling:
      return info.follows_blocks() ? Discovery::kProfiled : Discovery::kObserved;
    case TargetState::kDetached:
      return Discovery::kDetached;
    case TargetState::kExited:
    case TargetState::kFailed:
      break;
  }
  return Discovery::kRefused;
}

DiscoveredProgram program_of(const TargetInfo& info) {
  return {.pid = info.pid,
          .start_time_ticks = info.program.start_time_ticks,
          .comm = info.comm,
          .exe = info.exe,
          .outcome = outcome_of(info),
          .reason = info.message,
          .rule = {}};
}

}  // namespace

Discoveries with_targets(Discoveries found, const std::vector<ProfileSnapshotPtr>& targets) {
  std::map<int, DiscoveredProgram> programs;
  for (DiscoveredProgram& program : std::exchange(found.programs, {})) {
    --found.counts[static_cast<std::size_t>(program.outcome)];
    const int pid = program.pid;
    programs.emplace(pid, std::move(program));
  }
  for (const ProfileSnapshotPtr& target : targets) {
    const TargetInfo& info = target->info;
    const auto known = programs.find(info.pid);
    const bool same =
        known != programs.end() && known->second.start_time_ticks == info.program.start_time_ticks;
    // The search determines whether a detached program is still running.
    if (!is_active(info.state) && (!same || info.state == TargetState::kExited)) continue;
    DiscoveredProgram& program = programs[info.pid];
    std::string rule = std::move(program.rule);
    program = program_of(info);
    program.rule = std::move(rule);
  }
  for (auto& [pid, program] : programs) found.add(std::move(program));
  return found;
}

}  // namespace memprofd
