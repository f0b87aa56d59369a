// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/model/callstack.h"
#include "daemon/util/ids.h"

namespace memprofd {

// The times at which a program was observed to have completed a number of major collections.
//
//   note(10 s, 3)  note(11 s, 3)  note(12 s, 7)
//   last_with_at_most(2) nothing     (3), (6) 11 s     (7) 12 s
class MajorTimes {
 public:
  // Maximum number of counts; the latest are kept.
  static constexpr std::size_t kMax = 64;

  // At that time the program had completed at most count collections. Times must not decrease.
  void note(std::uint64_t time_ns, std::uint64_t count) {
    if (seen_.empty() || seen_.back().count != count) seen_.push_back({time_ns, count});
    seen_.back().time_ns = time_ns;
    if (seen_.size() > kMax) seen_.pop_front();
  }
  // The last time at which at most count collections were completed.
  std::optional<std::uint64_t> last_with_at_most(std::uint64_t count) const {
    for (auto seen = seen_.rbegin(); seen != seen_.rend(); ++seen) {
      if (seen->count <= count) return seen->time_ns;
    }
    return std::nullopt;
  }

 private:
  struct Seen {
    std::uint64_t time_ns = 0;
    std::uint64_t count = 0;
  };
  std::deque<Seen> seen_;
};

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
