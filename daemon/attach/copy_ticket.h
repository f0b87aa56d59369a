// SPDX-License-Identifier: Apache-2.0
// What may be used of a target to take a copy of it, on any one thread. The target is not let go of
// while somebody has its ticket, who looks at given_up() often and gives the ticket back soon then.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/attach/inject/libc_functions.h"
#include "daemon/attach/kernel/kernel_side.h"
#include "daemon/discover/target.h"
#include "daemon/util/shared_fd.h"

namespace memprofd {

struct CopyTicket {
  const Target& target;
  const KernelSide& kernel;
  SharedFd agent_file;
  std::uint64_t control_address = 0;  // memprof_agent_control in the process
  LibcFunctions libc;
  // How long its threads have stood still for copies, told by whoever has the ticket.
  std::atomic<double>& paused_seconds;
  // What the pauses of its copies were to what was predicted of them, told likewise.
  std::atomic<double>& pause_ratio;
  std::atomic<bool> given_up{false};
};

}  // namespace memprofd
