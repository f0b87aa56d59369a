// SPDX-License-Identifier: Apache-2.0
// Capture modes: callstacks are recorded by the kernel side, with a probe at each sample, by the
// runtime, or by the agent.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {

enum class CaptureMode {
  kAuto,     // by the cost of a sample for the program (attach/budget/capture_choice.h)
  kKernel,   // whole callstacks; nothing more is allocated in the program's heap
  kRuntime,  // MEMPROF_PACKED_FRAMES innermost frames, far fewer probe hits
  kAgent,    // whole callstacks with as few hits; only changed frames are walked
};

// The initial capture mode for kAuto.
constexpr memprof_capture_by capture_of(CaptureMode mode) {
  if (mode == CaptureMode::kKernel) return MEMPROF_CAPTURE_BY_KERNEL;
  return mode == CaptureMode::kAgent ? MEMPROF_CAPTURE_BY_AGENT : MEMPROF_CAPTURE_BY_RUNTIME;
}

constexpr std::string_view capture_name(memprof_capture_by capture) {
  switch (capture) {
    case MEMPROF_CAPTURE_BY_RUNTIME:
      return "runtime";
    case MEMPROF_CAPTURE_BY_AGENT:
      return "agent";
    default:
      return "kernel";
  }
}

// The capture mode for that OCaml version if this mode is requested; runtime capture works in all
// of them. kFailedPrecondition, in one line, if the requested mode is not supported there.
absl::StatusOr<CaptureMode> capture_for(const RuntimeAbi& abi, CaptureMode asked);

// Why the agent does not, or no longer, capture callstacks in a session that requested it.
std::string_view walk_state_text(memprof_walk_state state);

}  // namespace memprofd
