// SPDX-License-Identifier: Apache-2.0
#include "daemon/model/target_info.h"

namespace memprofd {

std::string_view state_name(TargetState state) {
  switch (state) {
    case TargetState::kWaiting:
      return "waiting";
    case TargetState::kSampling:
      return "sampling";
    case TargetState::kDetached:
      return "detached";
    case TargetState::kExited:
      return "exited";
    case TargetState::kFailed:
      return "failed";
  }
  return "unknown";
}

std::string_view mode_name(TargetMode mode) {
  switch (mode) {
    case TargetMode::kAgent:
      return "agent";
    case TargetMode::kObserve:
      return "observe";
    case TargetMode::kTrace:
      return "trace";
  }
  return "unknown";
}

std::array<std::string, kTargetLabels.size()> label_values(const TargetInfo& info) {
  return {info.comm,
          info.exe,
          info.unit,
          info.container,
          info.runtime_version,
          std::string(mode_name(info.mode))};
}

}  // namespace memprofd
