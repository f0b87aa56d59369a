// SPDX-License-Identifier: Apache-2.0
// Who records callstacks: the kernel side by a probe at each sample, the runtime, or the agent.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {

enum class CaptureMode {
  kAuto,     // by the rate, and by how many targets of the program the kernel captures
  kKernel,   // whole callstacks; nothing more is allocated in the program's heap
  kRuntime,  // MEMPROF_PACKED_FRAMES innermost frames, far fewer probe hits
  kAgent,    // whole callstacks, as few hits, only what has changed is walked
};

// The runtime's capture costs the target a quarter to a half of the kernel's at any rate
// (docs/cost.md). Below this one what either costs can hardly be seen, and the kernel's leaves
// the program's heap alone.
inline constexpr double kRuntimeCaptureRate = 1e-4;

// By the rate that was asked for. Under an overhead budget sessions may run at a lower one, and
// who captures stays: a sample costs the same before and after a change, and a budget that
// lowers the rate goes further with the runtime's cheaper capture.
constexpr memprof_capture_by capture_at(double sampling_rate, CaptureMode mode) {
  if (mode == CaptureMode::kKernel) return MEMPROF_CAPTURE_BY_KERNEL;
  if (mode == CaptureMode::kRuntime) return MEMPROF_CAPTURE_BY_RUNTIME;
  if (mode == CaptureMode::kAgent) return MEMPROF_CAPTURE_BY_AGENT;
  return sampling_rate >= kRuntimeCaptureRate ? MEMPROF_CAPTURE_BY_RUNTIME
                                              : MEMPROF_CAPTURE_BY_KERNEL;
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

// Who captures callstacks of that OCaml when that was asked for: the runtime can in all of them.
// kFailedPrecondition, in one line, for a way that was asked for and is not supported there.
absl::StatusOr<CaptureMode> capture_for(const RuntimeAbi& abi, CaptureMode asked);

// Why a session that the agent was to capture is not, or no longer.
std::string_view walk_state_text(memprof_walk_state state);

}  // namespace memprofd
