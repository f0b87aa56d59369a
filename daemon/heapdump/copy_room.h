// SPDX-License-Identifier: Apache-2.0
// Checks whether the machine and the cgroups of a program have room for a copy of it. In the worst
// case the program writes each of its anonymous pages while the copy exists, so that each page
// exists twice. In a cgroup without room the kernel would kill the program as well as the copy
// (memory.oom.group).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/heapdump/copy_cost.h"

namespace memprofd {

struct MemoryRoots {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// kResourceExhausted, in one line with the remedy, if there is no room. Limits that cannot be read
// (of cgroups outside of memprofd's namespace) are ignored. File pages that a cgroup has not used
// lately count as room.
absl::Status check_room(int pid, const CopyCost& cost, const MemoryRoots& roots = {});

}  // namespace memprofd
