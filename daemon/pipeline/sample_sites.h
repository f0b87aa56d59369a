// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/model/callstack.h"
#include "daemon/pipeline/major_times.h"
#include "daemon/util/ids.h"

namespace memprofd {

// Callstacks and allocation times of sampled blocks.
struct SampleSites {
  static constexpr std::uint32_t kUnknown = ~0u;
  std::vector<std::shared_ptr<const Callstack>> callstacks;
  // Index in callstacks for each requested number.
  std::vector<std::uint32_t> of;            // or kUnknown
  std::vector<std::uint64_t> allocated_ns;  // CLOCK_MONOTONIC; 0: unknown
  MajorTimes majors;                        // major collections of the program
  // CLOCK_MONOTONIC; all blocks that were sampled since then are known. 0: unknown.
  std::uint64_t sampled_since_ns = 0;
};

class Pipeline;

// Finds the sites of blocks that live in a pipeline, without majors. Runs on the thread that owns
// the pipeline.
SampleSites find_sample_sites(const Pipeline& pipeline, std::span<const SampleId> numbers);

}  // namespace memprofd
