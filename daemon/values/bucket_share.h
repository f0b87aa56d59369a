// SPDX-License-Identifier: Apache-2.0
// Quantiles of numbers that are counted in buckets.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>

namespace memprofd {

// The bucket of the smallest number that this share of all numbers do not exceed; nullopt if there
// are none. counts: numbers in each bucket, in order; a range of unsigned numbers.
template <typename Counts>
std::optional<std::size_t> bucket_of_share(const Counts& counts, double share) {
  const auto all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  if (all == 0) return std::nullopt;
  const double wanted = std::max(1.0, std::ceil(share * static_cast<double>(all)));
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  for (; bucket + 1 < counts.size(); ++bucket) {
    seen += counts[bucket];
    if (static_cast<double>(seen) >= wanted) break;
  }
  return bucket;
}

}  // namespace memprofd
