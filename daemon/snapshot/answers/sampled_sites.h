// SPDX-License-Identifier: Apache-2.0
// Sampled blocks of a snapshot by allocation site, and the memory that they stand for: reachable,
// and waiting for the collector.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// Blocks that were sampled, and the memory that they stand for.
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
  kGarbage,  // in the heap, and nothing leads there: waits for the collector, or for its finaliser
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

// As everywhere: a block of many words counts by its own size, others by their samples.
SampledSum sum_of(const HeapImage& image, const SampledBlock& sampled);
SampledState state_of(const ShortestPaths& paths, const SampledBlock& sampled);
// "Cache.add cache.ml:41": the innermost frame; "(unknown)" without any.
std::string site_name(const HeapImage& image, std::uint32_t site);

struct SiteRow {
  std::string name;
  SiteSums sums;
};
// Callstacks with the same innermost frame together, those with the most reachable memory first;
// none that no block was sampled of. wanted: by site.
std::vector<SiteRow> sum_sites(const HeapImage& image, const ShortestPaths& paths,
                               const std::vector<bool>& wanted);
std::vector<SiteRow> sum_sites(const HeapImage& image, const ShortestPaths& paths);

}  // namespace memprofd
