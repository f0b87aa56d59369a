// SPDX-License-Identifier: Apache-2.0
// Options of an attach.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/attach/kernel/capture_mode.h"
#include "daemon/model/requested_process.h"

namespace memprofd {

// Microseconds of CPU per second, for all processors together, that probes on the native heap may
// cost if no agent is possible.
inline constexpr std::uint64_t kUsualNativeHeapMaxHits = 20'000,
                               kMaxNativeHeapMaxHits = 100'000'000;

struct AttachOptions {
  std::string agent_path;
  bool no_inject = false;
  bool follow_forks = false;  // report children
  CaptureMode capture = CaptureMode::kKernel;
  std::uint64_t native_heap_interval = 0;  // bytes of native heap per sample; 0: not profiled
  // Without an agent: maximum cost of the native heap's probes, in microseconds per second.
  std::uint64_t native_heap_max_hits = kUsualNativeHeapMaxHits;
  std::uint32_t max_frames = 0;
  std::uint32_t ring_bytes = 0;  // 0: as KernelConfig has it
  // Start time of the requested process, whose pid may have been reused. 0: any process with the
  // pid.
  std::uint64_t start_time_ticks = 0;
  std::optional<ProcessUser> user;  // required owner of the program; nullopt: any
};

}  // namespace memprofd
