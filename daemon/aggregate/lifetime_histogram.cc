// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/lifetime_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace memprofd {
namespace {

using Bounds = std::array<double, LifetimeHistogram::kBuckets>;

Bounds make_bounds() {
  Bounds bounds;
  for (int i = 0; i < LifetimeHistogram::kBuckets; ++i) {
    bounds[i] = LifetimeHistogram::kFirstBoundNs * std::exp2(i / 2.0);
  }
  bounds.back() = std::numeric_limits<double>::infinity();
  return bounds;
}

const Bounds kBounds = make_bounds();

// The exponent of a normal number above 0, like std::ilogb but without a call, because each death
// needs it.
int octave_of(double number) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(number) >> 52) - 1023;
}

double interpolate(int bucket, double fraction) {
  if (bucket == 0) return fraction * kBounds[0];
  const double low = kBounds[bucket - 1];
  if (bucket == LifetimeHistogram::kBuckets - 1) return low;
  return low * std::pow(kBounds[bucket] / low, fraction);
}

Bounds make_middles() {
  Bounds middles;
  for (int i = 0; i < LifetimeHistogram::kBuckets; ++i) middles[i] = interpolate(i, 0.5);
  return middles;
}

const Bounds kMiddles = make_middles();

}  // namespace

double LifetimeHistogram::upper_bound_ns(int bucket) { return kBounds[bucket]; }

int LifetimeHistogram::bucket_of(std::uint64_t lifetime_ns) {
  const double ns = static_cast<double>(lifetime_ns);
  if (ns < kFirstBoundNs) return 0;
  // The bound 2n of octave n is not above the lifetime; the next one may be.
  const int octave = octave_of(ns / kFirstBoundNs);
  if (2 * octave >= kBuckets - 1) return kBuckets - 1;
  return 2 * octave + 1 + (ns >= kBounds[2 * octave + 1] ? 1 : 0);
}

double LifetimeHistogram::share_within(int bucket, double min_ns, double max_ns) {
  const double low = bucket == 0 ? 0 : kBounds[bucket - 1];
  const double high = bucket == kBuckets - 1 ? 4 * low : kBounds[bucket];
  const double from = std::clamp(min_ns, low, high), to = std::clamp(max_ns, low, high);
  if (from >= to) return 0;
  if (from == low && to == high) return 1;
  if (bucket == 0) return (to - from) / high;
  return std::log(to / from) / std::log(high / low);
}

double LifetimeHistogram::mean_share_below(int bucket, double from_ns, double to_ns) {
  const double low = bucket == 0 ? 0 : kBounds[bucket - 1];
  const double high = bucket == kBuckets - 1 ? 4 * low : kBounds[bucket];
  // Integral of the share below t, from 0 to t.
  const auto integral = [&](double t) {
    if (t <= low) return 0.0;
    const double inside = std::min(t, high), beyond = t - inside;
    if (bucket == 0) return inside * inside / (2 * high) + beyond;
    return (inside * std::log(inside / low) - inside + low) / std::log(high / low) + beyond;
  };
  if (to_ns <= low) return 0;
  if (from_ns >= high) return 1;
  if (from_ns >= to_ns) return share_within(bucket, 0, from_ns);
  return std::clamp((integral(to_ns) - integral(from_ns)) / (to_ns - from_ns), 0.0, 1.0);
}

double LifetimeHistogram::value_at(int bucket, double fraction) {
  return interpolate(bucket, fraction);
}

double LifetimeHistogram::middle_ns(int bucket) { return kMiddles[bucket]; }

void LifetimeHistogram::add(std::uint64_t lifetime_ns, std::uint64_t n_samples, double words) {
  add_bucket(bucket_of(lifetime_ns), n_samples, words);
  sum_ns_ += static_cast<double>(lifetime_ns) * words;
}

void LifetimeHistogram::add_bucket(int bucket, std::uint64_t n_samples, double words) {
  total_ += n_samples;
  counts_[bucket] += n_samples;
  words_[bucket] += words;
}

LifetimeHistogram& LifetimeHistogram::operator+=(const LifetimeHistogram& other) {
  total_ += other.total_;
  sum_ns_ += other.sum_ns_;
  for (int i = 0; i < kBuckets; ++i) {
    counts_[i] += other.counts_[i];
    words_[i] += other.words_[i];
  }
  return *this;
}

}  // namespace memprofd
