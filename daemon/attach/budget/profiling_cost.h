// SPDX-License-Identifier: Apache-2.0
// Computes the cost of profiling for a target from counts that are taken outside of it.
//
//   cost = samples × the runtime's engine and the agent
//        + frames that the runtime captured × its stack walk
//        + frames that the agent captured × its stack walk
//        + probe hits × the trap
//        + run time of the BPF programs, as measured by the kernel
#pragma once

#include <cstdint>

#include "agent-lib/include/memprof_agent_abi.h"

namespace memprofd {

// Counts between two moments, or in total.
struct ProfilingCounts {
  std::uint64_t samples = 0;     // blocks, and records that were lost
  std::uint64_t frames = 0;      // frames captured by the runtime
  std::uint64_t walked = 0;      // frames captured by the agent
  std::uint64_t probe_hits = 0;  // uprobes in the target
  std::uint64_t program_ns = 0;  // run time of the BPF programs at them
};

// Nanoseconds, at the upper end of the results of `tests/bench/bench.py --only overhead`: 375 to
// 514 per sample at 10 frames and 1,156 to 1,549 at 90. The first covers the whole life of a
// sampled block: the runtime's engine, the allocation, promotion and deallocation callbacks, and
// their effect on the caches.
inline constexpr double kSampleNs = 450;
inline constexpr double kFrameNs = 25;
// Cost of a frame. Most frames are verified, not walked: 0.8 to 1.2 by `tests/bench/bench.py --only
// captures`.
inline constexpr double kWalkedFrameNs = 2;
// Cost of a probe hit on a machine where it cannot be measured (attach/budget/trap_cost.h).
inline constexpr double kUsualTrapNs = 1500;
// Cost of one stack walk by the kernel, until BPF programs are measured or if they cannot be.
inline constexpr std::uint64_t kUsualWalkNs = 1500;

inline double cost_seconds(const ProfilingCounts& counts, double trap_ns) {
  return (static_cast<double>(counts.samples) * kSampleNs +
          static_cast<double>(counts.frames) * kFrameNs +
          static_cast<double>(counts.walked) * kWalkedFrameNs +
          static_cast<double>(counts.probe_hits) * trap_ns +
          static_cast<double>(counts.program_ns)) *
         1e-9;
}

// Cost of one sample with a callstack of 40 frames, before anything has been counted.
inline double usual_sample_seconds(memprof_capture_by capture, double trap_ns) {
  constexpr std::uint64_t kFrames = 40;
  if (capture == MEMPROF_CAPTURE_BY_KERNEL)
    return cost_seconds({.samples = 1, .probe_hits = 1, .program_ns = kUsualWalkNs}, trap_ns);
  return capture == MEMPROF_CAPTURE_BY_AGENT
             ? cost_seconds({.samples = 1, .walked = kFrames}, trap_ns)
             : cost_seconds({.samples = 1, .frames = kFrames}, trap_ns);
}

}  // namespace memprofd
