// SPDX-License-Identifier: Apache-2.0
#include "daemon/calls/call_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace memprofd {
namespace {

// The bucket of the call that is not below this share of all.
NumberRange quantile(std::span<const __u64> buckets, double share) {
  const std::uint64_t all = std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
  if (all == 0) return {};
  const double wanted = std::max(1.0, std::ceil(share * static_cast<double>(all)));
  std::uint64_t seen = 0;
  std::uint32_t bucket = 0;
  while (static_cast<double>(seen += buckets[bucket]) < wanted) ++bucket;
  if (bucket + 1 == buckets.size()) {
    return {memprof_call_bucket_ns(bucket), std::numeric_limits<std::uint64_t>::max()};
  }
  return {memprof_call_bucket_ns(bucket), memprof_call_bucket_ns(bucket + 1)};
}

Quantiles quantiles(std::span<const __u64> buckets) {
  return {quantile(buckets, 0.5), quantile(buckets, 0.9), quantile(buckets, 0.99)};
}

}  // namespace

CallTimes call_times(const memprof_call_counts& counts) {
  const std::uint64_t over = counts.returned + counts.tails + counts.raised + counts.lost;
  return {.returned = counts.returned,
          .tail_calls = counts.tails,
          .raised = counts.raised,
          .running = counts.calls - std::min<std::uint64_t>(counts.calls, over),
          .lost = counts.lost,
          .unmatched = counts.unmatched,
          .seconds = static_cast<double>(counts.total_ns) / 1e9,
          .ns = quantiles(counts.buckets),
          .words = counts.words,
          .unsized = counts.unsized,
          .words_each = quantiles(counts.word_buckets)};
}

}  // namespace memprofd
