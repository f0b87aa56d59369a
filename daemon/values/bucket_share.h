// SPDX-License-Identifier: Apache-2.0
// Quantiles of numbers of which is known how many lie in each bucket.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>

namespace memprofd {

// The bucket of the number that this share of all do not exceed; nothing when there are none.
// counts: of each bucket, in order; a range of unsigned numbers.
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
