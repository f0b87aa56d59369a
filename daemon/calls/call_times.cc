// SPDX-License-Identifier: Apache-2.0
#include "daemon/calls/call_times.h"

#include <algorithm>
#include <limits>
#include <span>

#include "daemon/values/bucket_share.h"

namespace memprofd {
namespace {

NumberRange quantile(std::span<const __u64> buckets, double share) {
  const auto found = bucket_of_share(buckets, share);
  if (!found) return {};
  const auto bucket = static_cast<std::uint32_t>(*found);
  const bool is_last = bucket + 1 == buckets.size();
  return {memprof_call_bucket_ns(bucket),
          is_last ? std::numeric_limits<std::uint64_t>::max() : memprof_call_bucket_ns(bucket + 1)};
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
