// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/capture_mode.h"

#include "daemon/util/status_macros.h"

namespace memprofd {

absl::StatusOr<CaptureMode> capture_for(const RuntimeAbi& abi, CaptureMode asked) {
  if (asked == CaptureMode::kAuto && !abi.tested.has(Capability::kCapture))
    return CaptureMode::kRuntime;
  if (asked == CaptureMode::kKernel) RETURN_IF_ERROR(check_capability(abi, Capability::kCapture));
  if (asked == CaptureMode::kAgent) RETURN_IF_ERROR(check_capability(abi, Capability::kWalk));
  return asked;
}

std::string_view walk_state_text(memprof_walk_state state) {
  switch (state) {
    case MEMPROF_WALK_OK:
      return "the agent walks the stack";
    case MEMPROF_WALK_UNKNOWN_RUNTIME:
      return "this OCaml runtime lacks something that the agent's stack walk needs";
    case MEMPROF_WALK_ALLOCATOR:
      return "the program has an allocator of its own in the OCaml runtime";
    case MEMPROF_WALK_DIFFERED:
      return "the agent's walk of the stack did not agree with the OCaml runtime's";
    case MEMPROF_WALK_BROKEN_STACK:
      return "the agent's walk read memory that is not a stack";
    case MEMPROF_WALK_CROWDED:
      return "C code of the program allocates too many blocks of one word for the agent's walk";
  }
  return "the agent's walk of the stack has ended";
}

}  // namespace memprofd
