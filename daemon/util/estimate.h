// SPDX-License-Identifier: Apache-2.0
// Estimates from samples, with their error.
//
// Memprof samples every allocated word (headers included) with probability
// rate, so a block with n samples stands for n / rate words, and the sum over
// blocks is an unbiased estimate of the words allocated. The number of samples
// in w words is binomial, close to Poisson with mean rate * w; the variance of
// n / rate is then about n / rate^2. Sums add both, which stays right when the
// rate changes between samples. (Gc.Memprof documentation; the math is that of
// heapprofd's and tcmalloc's Poisson samplers.)
//
// That a large block has 1,023 or 1,101 samples says nothing that its size does
// not say better. It counts once, with its own words w: with probability
// p = 1 - (1 - rate)^w it has any sample, so that w / p is unbiased, and the
// error is only that of blocks which were not sampled at all. (The estimator of
// Horvitz and Thompson; the variance is theirs too, (w / p)^2 (1 - p).)
//
//   ten blocks of 2^21 words at a rate of 1e-4: p = 1 - 1e-91, 10 * 2^21 words +- 0
#pragma once

#include <cmath>
#include <cstdint>

namespace memprofd {

inline constexpr double kBytesPerWord = 8.0;

// What one sample stands for.
struct SampleWeight {
  double words = 0;
  double variance_words2 = 0;
};

// One for a sampled word.
inline SampleWeight weight_of_word(double rate) { return {1 / rate, 1 / (rate * rate)}; }

// One for a block with any sampled word; words are those of the whole block.
inline SampleWeight weight_of_block(double words, double rate) {
  const double log_missed = words * std::log1p(-rate);
  const double weight = words / -std::expm1(log_missed);
  return {weight, weight * weight * std::exp(log_missed)};
}

struct Estimate {
  std::uint64_t samples = 0;
  double words = 0;
  double variance_words2 = 0;

  void add(std::uint64_t n_samples, const SampleWeight& each) {
    const auto n = static_cast<double>(n_samples);
    samples += n_samples;
    words += n * each.words;
    variance_words2 += n * each.variance_words2;
  }
  // Takes back what add() with the same arguments added. At zero samples the
  // value is exactly zero again: no rounding residue.
  void subtract(std::uint64_t n_samples, const SampleWeight& each) {
    const auto n = static_cast<double>(n_samples);
    samples -= n_samples;
    words = samples == 0 ? 0 : words - n * each.words;
    variance_words2 = samples == 0 ? 0 : variance_words2 - n * each.variance_words2;
  }
  Estimate& operator+=(const Estimate& other) {
    samples += other.samples;
    words += other.words;
    variance_words2 += other.variance_words2;
    return *this;
  }
  double bytes() const { return words * kBytesPerWord; }
  // One standard error of bytes().
  double stderr_bytes() const { return std::sqrt(variance_words2) * kBytesPerWord; }
};

}  // namespace memprofd
