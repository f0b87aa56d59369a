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

// Weighted by the words that the sampled blocks stand for.
class SampledAges {
 public:
  void add(std::uint64_t age_ns, double words) { ages_.emplace_back(age_ns, words); }
  // Once all are there.
  void sort();

  // Nothing when no block's age is known.
  std::optional<std::uint64_t> longest() const;
  // The least age that the share of the words does not exceed; q in 0..1.
  std::optional<std::uint64_t> quantile(double q) const;

 private:
  std::vector<std::pair<std::uint64_t, double>> ages_;
};

struct GarbageRow {
  std::string name;  // as of SiteRow
  SampledSum sum;
  SampledSum young;  // of it in minor heaps
  SampledAges ages;
  // No block of it has been garbage for longer; nothing: not known.
  std::optional<std::uint64_t> longest_wait_ns;
};

struct Garbage {
  BlockCount all;                 // counted
  BlockCount young;               // of it in minor heaps, where the next minor collection finds it
  BlockCount dead;                // beside it: found by the collector, not swept yet
  std::vector<GarbageRow> sites;  // estimated; those with the most first
};

Garbage find_garbage(const HeapImage& image, const ShortestPaths& paths);
// For how long it may have been garbage at most, if it is; nothing: not known.
std::optional<std::uint64_t> longest_wait_ns(const HeapImage& image, const SampledBlock& sampled);

}  // namespace memprofd
