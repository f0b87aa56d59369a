// SPDX-License-Identifier: Apache-2.0
// Which memprofd an agent belongs to: a token in its control block. Wherever the other memprofd
// runs (another network namespace, say, where it does not see our TargetLock), it finds it there.
//
//   none, or its process has ended ──claim──▶ ours ──release──▶ none
//          of another that lives   ──claim──▶ kAlreadyExists, nothing is changed
//
// Memory of another process cannot be compared and exchanged at once. Two that claim at the same
// moment both write; the one whose token stays has it, and each looks again every second.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "daemon/attach/inject/agent_control.h"

namespace memprofd {

// Names a process as long as the machine runs: its pid and the boot, its start time. All 0: nobody.
struct OwnerToken {
  std::uint64_t boot_and_pid = 0;
  std::uint64_t start_ticks = 0;

  bool operator==(const OwnerToken&) const = default;
  int pid() const { return static_cast<int>(boot_and_pid & 0xffffffff); }
  // proc_root is "/proc", or a fake tree in tests.
  static OwnerToken of(int pid, const std::string& proc_root = "/proc");
  // The token of this process.
  static const OwnerToken& ours();
};

// The pid of the process that the token names, unless it has ended or is this one. The token is a
// target's word: at worst it refuses to be profiled.
std::optional<int> living_owner(const OwnerToken& token, const std::string& proc_root = "/proc");

// settled: waits until another's claim at the same moment would be seen. Not while a thread of the
// target is held.
enum class Claim { kSettled, kAtOnce };
// Takes the agent of process pid. kAlreadyExists: of another memprofd.
absl::Status claim_agent(const AgentControl& agent, int pid, Claim how);
// kAlreadyExists when another memprofd has claimed it since.
absl::Status check_claim(const AgentControl& agent, int pid);
// If it is ours.
void release_agent(const AgentControl& agent);

}  // namespace memprofd
