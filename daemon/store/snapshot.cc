#include "daemon/store/snapshot.h"

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
