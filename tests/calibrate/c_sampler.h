// SPDX-License-Identifier: Apache-2.0
// The agent's own sampler of C's memory, for threads that are simulated. There is one at a time:
// the sampler keeps its interval and its session in static data.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

extern "C" {
#include "agent-lib/native_heap/sampler.h"
}

namespace memprofd {

class NativeSampler {
 public:
  // Bytes for one sample; chance by seed.
  NativeSampler(std::uint64_t interval, std::uint64_t seed, int threads) {
    memprof_c_session = 0;
    memprof_c_sampler_set(interval);
    for (int thread = 0; thread < threads; ++thread) {
      threads_.push_back({.random = 1 + seed * static_cast<std::uint64_t>(threads) +
                                    static_cast<std::uint64_t>(thread)});
    }
    memprof_c_session = 1;
  }

  // Samples of a block that a thread takes.
  std::uint32_t sample(int thread, std::uint64_t bytes) {
    std::swap(memprof_c_thread, threads_[static_cast<std::size_t>(thread)]);
    const std::uint32_t samples = memprof_c_passes(bytes) != 0 ? 0 : memprof_c_samples(bytes);
    std::swap(memprof_c_thread, threads_[static_cast<std::size_t>(thread)]);
    return samples;
  }

 private:
  std::vector<struct memprof_c_thread> threads_;
};

}  // namespace memprofd
