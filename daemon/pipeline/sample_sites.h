// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/model/callstack.h"
#include "daemon/pipeline/major_times.h"

namespace memprofd {

// Callstacks and allocation times of sampled blocks.
struct SampleSites {
  static constexpr std::uint32_t kUnknown = ~0u;
  std::vector<std::shared_ptr<const Callstack>> callstacks;
  // Index in callstacks for each requested number.
  std::vector<std::uint32_t> of;            // or kUnknown
  std::vector<std::uint64_t> allocated_ns;  // CLOCK_MONOTONIC; 0: unknown
  MajorTimes majors;                        // major collections of the program
};

}  // namespace memprofd
