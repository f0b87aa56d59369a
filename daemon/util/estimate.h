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
#pragma once

#include <cmath>
#include <cstdint>

namespace memprofd {

inline constexpr double kBytesPerWord = 8.0;

struct Estimate {
  std::uint64_t samples = 0;
  double words = 0;
  double variance_words2 = 0;

  void add(std::uint64_t n_samples, double rate) {
    const auto n = static_cast<double>(n_samples);
    samples += n_samples;
    words += n / rate;
    variance_words2 += n / (rate * rate);
  }
  // Takes back what add() with the same arguments added. At zero samples the
  // value is exactly zero again: no rounding residue.
  void subtract(std::uint64_t n_samples, double rate) {
    const auto n = static_cast<double>(n_samples);
    samples -= n_samples;
    words = samples == 0 ? 0 : words - n / rate;
    variance_words2 = samples == 0 ? 0 : variance_words2 - n / (rate * rate);
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
