// SPDX-License-Identifier: Apache-2.0
// Sampled blocks of a snapshot by allocation site, and the memory that they represent: reachable,
// and garbage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// Sampled blocks, and the memory that they represent.
struct SampledSum {
  std::uint64_t blocks = 0;
  Estimate estimate;

  SampledSum& operator+=(const SampledSum& other) {
    blocks += other.blocks;
    estimate += other.estimate;
    return *this;
  }
};

enum class SampledState : std::uint8_t {
  kReachable,
  kGarbage,  // unreachable in the heap: waits for the collector or for its finaliser
  kDead,     // found by the collector
};
inline constexpr int kSampledStates = 3;

struct SiteSums {
  SampledSum by_state[kSampledStates] = {};

  void add(SampledState state, const SampledSum& sum) { by_state[static_cast<int>(state)] += sum; }

  const SampledSum& reachable() const {
    return by_state[static_cast<int>(SampledState::kReachable)];
  }
  const SampledSum& garbage() const { return by_state[static_cast<int>(SampledState::kGarbage)]; }
  const SampledSum& dead() const { return by_state[static_cast<int>(SampledState::kDead)]; }
  SampledSum all() const {
    SampledSum sum;
    for (const SampledSum& one : by_state) sum += one;
    return sum;
  }
};

// A large block counts with its own size, others with their samples, as elsewhere.
SampledSum sum_of(const HeapImage& image, const SampledBlock& sampled);
SampledState state_of(const ShortestPaths& paths, const SampledBlock& sampled);
// "Cache.add cache.ml:41" for the innermost frame; "(unknown)" without frames.
std::string site_name(const HeapImage& image, std::uint32_t site);

struct SiteRow {
  std::string name;
  SiteSums sums;
};
// Groups callstacks by innermost frame, those with the most reachable memory first. Omits sites
// without sampled blocks. wanted: by site.
std::vector<SiteRow> sum_sites(const HeapImage& image, const ShortestPaths& paths,
                               const std::vector<bool>& wanted);
std::vector<SiteRow> sum_sites(const HeapImage& image, const ShortestPaths& paths);

}  // namespace memprofd
