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

}  // namespace memprofd
