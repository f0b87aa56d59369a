// SPDX-License-Identifier: Apache-2.0
// What a process belongs to: names that its successor has too after a deploy, read off the control
// groups that systemd and container runtimes put it into.
#pragma once

#include <string>
#include <string_view>

#include "daemon/discover/proc_fs.h"

namespace memprofd {

struct Workload {
  std::string unit;       // "shop.service", the innermost; empty: of none
  std::string container;  // the first 12 digits of its id; empty: in none

  friend bool operator==(const Workload&, const Workload&) = default;
};

// The text of /proc/PID/cgroup; total on any.
Workload parse_workload(std::string_view cgroups);
// Nothing, when it cannot be read.
Workload workload_of(const ProcFs& proc, int pid);

}  // namespace memprofd
