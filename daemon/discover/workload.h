// SPDX-License-Identifier: Apache-2.0
// The service or container of a process: names that its successor also has after a deploy, read
// from the control groups of systemd and container runtimes.
#pragma once

#include <string>
#include <string_view>

#include "daemon/discover/proc_fs.h"

namespace memprofd {

struct Workload {
  std::string unit;       // "shop.service", the innermost; empty: none
  std::string container;  // the first 12 digits of its id; empty: in none

  friend bool operator==(const Workload&, const Workload&) = default;
};

// Parses the text of /proc/PID/cgroup; accepts any text.
Workload parse_workload(std::string_view cgroups);
// Empty if it cannot be read.
Workload workload_of(const ProcFs& proc, int pid);

}  // namespace memprofd
