// SPDX-License-Identifier: Apache-2.0
// Keeps memprofd within --cpu.max: measures its CPU use, in total and for each target, and applies
// the shares of CpuBound to the targets. Owned by the control thread.
#pragma once

#include <chrono>
#include <map>
#include <memory>

#include "daemon/control/cpu_bound.h"
#include "daemon/control/target_controller.h"

namespace memprofd {

class CpuGovernor {
 public:
  // cores: as for CpuBound.
  explicit CpuGovernor(double cores) : bound_(cores) {}

  // Call this repeatedly.
  void check(const std::map<int, std::unique_ptr<TargetController>>& targets);

 private:
  void log_who_else(double seconds);

  CpuBound bound_;
  std::chrono::steady_clock::time_point began_at_;  // start of the window; unset: none has begun
  double cpu_seconds_ = 0;  // CPU time of memprofd and its memory servers at that time
  double others_over_seconds_ = 0;
  bool logged_others_ = false;
};

}  // namespace memprofd
