// Who records callstacks: the kernel side by a probe at each sample, or the runtime.
#pragma once

#include "agent-lib/include/memprof_agent_abi.h"

namespace memprofd {

enum class CaptureMode {
  kAuto,     // by the rate
  kKernel,   // whole callstacks; nothing more is allocated in the program's heap
  kRuntime,  // MEMPROF_PACKED_FRAMES innermost frames, far fewer probe hits
};

// From this rate on the runtime's capture is cheaper in any case that matters; below, what
// either costs cannot be seen, and the kernel's leaves the program's heap alone.
inline constexpr double kRuntimeCaptureRate = 1e-4;

constexpr memprof_capture_by capture_at(double sampling_rate, CaptureMode mode) {
  if (mode == CaptureMode::kKernel) return MEMPROF_CAPTURE_BY_KERNEL;
  if (mode == CaptureMode::kRuntime) return MEMPROF_CAPTURE_BY_RUNTIME;
  return sampling_rate >= kRuntimeCaptureRate ? MEMPROF_CAPTURE_BY_RUNTIME
                                              : MEMPROF_CAPTURE_BY_KERNEL;
}

}  // namespace memprofd
