// SPDX-License-Identifier: Apache-2.0
// Floating garbage: unreachable blocks that the collector has not found yet, by allocation site,
// with their age and the time for which they may have been garbage.
//
// The moment at which a block became garbage is unknown. The block was allocated a known time ago,
// and, unless it is in a minor heap, it was reachable when the last finished major collection began
// to mark. So it has been garbage for at most the shorter of both times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_census.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// Ages weighted by the words that the sampled blocks represent.
class SampledAges {
 public:
  void add(std::uint64_t age_ns, double words) { ages_.emplace_back(age_ns, words); }
  // Call this after the last add().
  void sort();

  // Unset if no block's age is known.
  std::optional<std::uint64_t> longest() const;
  // The smallest age that this share q, 0 to 1, of the words does not exceed.
  std::optional<std::uint64_t> quantile(double q) const;

 private:
  std::vector<std::pair<std::uint64_t, double>> ages_;
};

struct GarbageRow {
  std::string name;  // as in SiteRow
  SampledSum sum;
  SampledSum young;  // part in minor heaps
  SampledAges ages;
  // Upper limit of the time for which any of its blocks has been garbage; unset: unknown.
  std::optional<std::uint64_t> longest_wait_ns;
};

struct Garbage {
  BlockCount all;                 // counted
  BlockCount young;               // part in minor heaps, found by the next minor collection
  BlockCount dead;                // additional blocks, found by the collector but not swept yet
  std::vector<GarbageRow> sites;  // estimated; largest first
};

Garbage find_garbage(const HeapImage& image, const ShortestPaths& paths);
// Upper limit of the time for which the block has been garbage, if it is; nullopt: unknown.
std::optional<std::uint64_t> longest_wait_ns(const HeapImage& image, const SampledBlock& sampled);

}  // namespace memprofd
