// SPDX-License-Identifier: Apache-2.0
// Lifetimes of sampled blocks, from allocation to deallocation, on a log scale.
//
// Two buckets per octave: bucket i counts lifetimes below kFirstBoundNs * 2^(i/2) that fit no
// earlier bucket; the last one counts all longer ones. From 1 us to about 25 days the upper bound
// of a bucket is at most 42 % above its lower end. Quantiles are weighted by the words that the
// samples represent, whatever their rates: half of the deallocated memory lived at most p50.
#pragma once

#include <array>
#include <cstdint>

namespace memprofd {

class LifetimeHistogram {
 public:
  static constexpr int kBuckets = 84;
  static constexpr double kFirstBoundNs = 1000.0;

  // Upper bound of a bucket in ns; infinity for the last.
  static double upper_bound_ns(int bucket);
  static int bucket_of(std::uint64_t lifetime_ns);
  // Share of a bucket's lifetimes within [min_ns, max_ns), assuming that they are spread evenly on
  // the log scale. The first bucket is linear; the last extends to 4 times its beginning.
  static double share_within(int bucket, double min_ns, double max_ns);
  // Mean of share_within(bucket, 0, t) over all t in [from_ns, to_ns].
  static double mean_share_below(int bucket, double from_ns, double to_ns);
  // The lifetime in ns at a fraction of a bucket on the log scale. The first bucket begins at 0 and
  // is linear. The last has no end, so its beginning is returned.
  static double value_at(int bucket, double fraction);
  // The lifetime in ns that represents all lifetimes of a bucket.
  static double middle_ns(int bucket);

  void add(std::uint64_t lifetime_ns, std::uint64_t n_samples, double words);
  // Adds samples of which only the bucket is known; the sum of their lifetimes is set separately.
  void add_bucket(int bucket, std::uint64_t n_samples, double words);
  void set_sum_ns(double sum_ns) { sum_ns_ = sum_ns; }
  LifetimeHistogram& operator+=(const LifetimeHistogram& other);

  std::uint64_t total() const { return total_; }  // samples
  double sum_ns() const { return sum_ns_; }       // weighted by words
  std::uint64_t count(int bucket) const { return counts_[bucket]; }
  double words(int bucket) const { return words_[bucket]; }

 private:
  std::uint64_t total_ = 0;
  double sum_ns_ = 0;
  std::array<std::uint64_t, kBuckets> counts_{};
  std::array<double, kBuckets> words_{};
};

}  // namespace memprofd
