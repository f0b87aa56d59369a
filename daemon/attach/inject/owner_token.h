// SPDX-License-Identifier: Apache-2.0
// Names the memprofd that an agent belongs to (agent_owner.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace memprofd {

// Identifies a process until the machine reboots: its pid, the boot, its start time. All 0: no
// owner.
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

// The pid of the process that the token names, unless that process has ended or is this one. The
// token comes from the target: a forged one at worst prevents the target's own profiling.
std::optional<int> living_owner(const OwnerToken& token, const std::string& proc_root = "/proc");

}  // namespace memprofd
