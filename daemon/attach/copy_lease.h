// SPDX-License-Identifier: Apache-2.0
// Access to a target for one copy of it, on any one thread. The target stays attached while a
// lease exists. Its holder checks given_up often, and then returns the lease soon.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/attach/inject/libc_functions.h"
#include "daemon/attach/kernel/kernel_side.h"
#include "daemon/discover/target.h"
#include "daemon/util/shared_fd.h"

namespace memprofd {

struct CopyLease {
  const Target& target;
  const KernelSide* kernel;  // null: the program is ours, and waits while it is copied
  SharedFd agent_file;
  std::uint64_t control_address = 0;  // memprof_agent_control in the process
  LibcFunctions libc;
  // Time for which its threads were paused for copies; written by the holder.
  std::atomic<double>& paused_seconds;
  // Ratio of actual to predicted pauses of its copies; written by the holder.
  std::atomic<double>& pause_ratio;
  bool filters_allow = false;  // as for Injection
  std::atomic<bool> given_up{false};
};

}  // namespace memprofd
