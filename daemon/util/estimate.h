// SPDX-License-Identifier: Apache-2.0
// Estimates from samples, with their standard error and 95 % confidence interval.
//
// Memprof samples every allocated word (headers included) with probability rate, so a block with n
// samples stands for n / rate words, and the sum over blocks is an unbiased estimate of the
// allocated words. The number of samples in w words is binomial, so n (1 - rate) / rate^2 is an
// unbiased estimate of the variance of n / rate. A sum adds both, and so remains unbiased when the
// rate changes between samples. (Gc.Memprof documentation; the Poisson samplers of heapprofd and
// tcmalloc use the same formulas.)
//
// A large block counts once, with its size of w words, regardless of its number of samples. It has
// a sample with probability p = 1 - (1 - rate)^w, so w / p is unbiased, and the only error comes
// from blocks without any sample (Horvitz-Thompson estimator, with variance (w / p)^2 (1 - p)).
//
//   ten blocks of 2^21 words at a rate of 1e-4: p = 1 - 1e-91, 10 * 2^21 words +- 0
//
// The 95 % interval is derived from that of a count. A sum with variance v is as certain as a count
// of k = v / g^2 samples of g words each. The grain g is the mean, weighted by variance, of
// 1 / -log(1 - rate), which is the contribution of a word sampled at that rate to the error. The
// limits of the count (count_limits) are then moved to the sum:
//
//   lower = words - g (k - lower of k),   upper = words + g (upper of k - k)
//
//   3 samples of words at 1e-5:  g = 1e5, k = 3:      300,000 words, 76,000 to 816,000
//   none:                                             0, 0 to 300,000
//   a block of 2^21 words:       k = 3e-7:        2,097,152 words, and up to 300,000 more
//
// In the last line the block itself is certain, but small blocks without a sample may exist too, as
// many as if there were no sample at all. (This is the gamma interval of Fay and Feuer 1997 for
// weighted sums of Poisson counts, in the mid-P form of Fay and Kim 2017. The grain is a mean, as
// in Tiwari, Clegg and Zou 2006, instead of the largest weight.)
#pragma once

#include <cmath>
#include <cstdint>

namespace memprofd {

inline constexpr double kBytesPerWord = 8.0;
inline constexpr double kSmallestBlockWords = 2.0;  // a header and one word

// An interval that contains the true value in 95 of 100 cases, in the unit of the value.
struct Limits {
  double lower = 0;
  double upper = 0;

  Limits scaled(double factor) const { return {lower * factor, upper * factor}; }
  friend bool operator==(const Limits&, const Limits&) = default;
};

// Limits for the mean of a Poisson distribution, given an observed count, which may be 0 and need
// not be whole. A mean lies outside if it makes a larger or a smaller count, plus half the
// probability of the count itself, less likely than 2.5 % (mid-P interval; 0: 0 to 3.0, 1: 0.05 to
// 4.9, 3: 0.76 to 8.2).
Limits count_limits(double count);

// Limits of a value whose variance comes from samples with a grain in the value's unit. skew is the
// sum of variance times grain. unseen is the mean grain of all samples, of this value or others; it
// applies if the value has no sample. If it is the larger grain, part of the value may have been
// allocated while each sample represented more, and up to 3.0 times the difference may be unseen.
// Limits are never negative.
Limits limits_of(double value, double variance, double skew, double unseen);

// The lower limit at any probability. quantile: of the normal distribution; 3.09 for 999 of 1000
// cases. standard_error and grain are in the value's unit. Returns the value itself if there is no
// error. The limit exceeds the true value at most as often as stated.
double lower_limit_of(double value, double standard_error, double grain, double quantile);

// The upper limit likewise: 6.9 grains without a sample, for 999 of 1000 cases. value: 0 then.
double upper_limit_of(double value, double standard_error, double grain, double quantile);

// Limits for b - a, from the intervals of two independent values. The squared distance to each
// limit is the sum of the squared distances to one value's limit and to the other's opposite limit.
// (Zou and Donner 2008, "Construction of confidence limits about effect measures".)
Limits difference_limits(double a, const Limits& of_a, double b, const Limits& of_b);

// The weight of a sample, and its contribution to the third central moment of a sum.
struct SampleWeight {
  double words = 0;
  double variance_words2 = 0;
  double skew_words3 = 0;  // the variance times the grain

  double grain() const { return variance_words2 > 0 ? skew_words3 / variance_words2 : 0; }
};

// The grain of a rate in words: the expected number of words per sample. 0 at a rate of 1.
inline double grain_words(double rate) { return rate > 0 && rate < 1 ? -1 / std::log1p(-rate) : 0; }

// Weight of one sampled word.
inline SampleWeight weight_of_word(double rate) {
  const double variance = (1 - rate) / (rate * rate);
  return {1 / rate, variance, variance * grain_words(rate)};
}

// Weight of a sampled word that was seen in one of `among` blocks of block_words words. Two random
// choices contribute: which blocks are seen, and the samples of a block, which are lost together.
// With c for among and m samples in a block that has any, m = 1 + rate (block_words - 1), the
// variance of n samples is c n (1 - rate) / rate^2 for their words plus c (c - 1) m n / rate^2 for
// their blocks.
inline SampleWeight weight_of_word(double rate, double among, double block_words) {
  const double samples = 1 + rate * (block_words - 1);
  const double variance = among * ((1 - rate) + (among - 1) * samples) / (rate * rate);
  return {among / rate, variance, variance * among * samples / rate};
}

// Weight of a block with at least one sampled word; words are those of the whole block. A block
// that is certain to be sampled keeps a tiny variance, so that its grain is known. Each block seen
// represents `among` such blocks; if that is above 1, it is its own grain.
inline SampleWeight weight_of_block(double words, double rate, double among = 1) {
  constexpr double kNearlyNothing = 1e-12;  // relative to the variance of one word's sample
  const double log_missed = words * std::log1p(-rate);
  const double weight = among * words / -std::expm1(log_missed);
  if (among > 1) {
    const double unsure = weight * weight * (1 + std::expm1(log_missed) / among);
    return {weight, unsure, unsure * weight};
  }
  const double grain = grain_words(rate);
  const double variance =
      std::fmax(weight * weight * std::exp(log_missed), kNearlyNothing * grain * grain);
  return {weight, variance, variance * grain};
}

struct Estimate {
  std::uint64_t samples = 0;
  double words = 0;
  double variance_words2 = 0;
  double skew_words3 = 0;
  // By how much the words may be too many or too few because a filter divided samples of which it
  // is not known which ones pass. Both are in the limits, beside the error of sampling.
  float divided_less_words = 0;
  float divided_more_words = 0;

  void add(std::uint64_t n_samples, const SampleWeight& each) {
    const auto n = static_cast<double>(n_samples);
    samples += n_samples;
    words += n * each.words;
    variance_words2 += n * each.variance_words2;
    skew_words3 += n * each.skew_words3;
  }
  // Reverses an add() with the same arguments. With zero samples left the value is exactly zero,
  // without a rounding residue. No field becomes negative, even if the remaining samples weigh much
  // less than those removed, because the error is a square root.
  void subtract(std::uint64_t n_samples, const SampleWeight& each) {
    const auto n = static_cast<double>(n_samples);
    const auto left = [&](double sum, double of_each) {
      return samples == 0 ? 0 : std::fmax(0, sum - n * of_each);
    };
    samples -= n_samples;
    words = left(words, each.words);
    variance_words2 = left(variance_words2, each.variance_words2);
    skew_words3 = left(skew_words3, each.skew_words3);
  }
  Estimate& operator+=(const Estimate& other) {
    samples += other.samples;
    words += other.words;
    variance_words2 += other.variance_words2;
    skew_words3 += other.skew_words3;
    divided_less_words += other.divided_less_words;
    divided_more_words += other.divided_more_words;
    return *this;
  }
  double bytes() const { return words * kBytesPerWord; }
  // One standard error of bytes().
  double stderr_bytes() const { return std::sqrt(variance_words2) * kBytesPerWord; }
  // Mean grain, weighted by variance; 0 without samples and at a rate of 1.
  double grain() const { return variance_words2 > 0 ? skew_words3 / variance_words2 : 0; }
  // Like grain(), but the grain of `rate` if there are no samples.
  double grain_or(double rate) const { return samples > 0 ? grain() : grain_words(rate); }
  // Limits of bytes(). unseen_words: mean grain of all samples. missing_words: the most that lost
  // samples stand for.
  Limits limits_bytes(double unseen_words, double missing_words = 0) const {
    Limits limits = limits_of(words, variance_words2, skew_words3, unseen_words);
    if (divided_less_words > 0) limits.lower = std::fmax(0, limits.lower - divided_less_words);
    if (divided_more_words > 0) limits.upper = upper_with_divided(unseen_words);
    limits.upper += missing_words;
    return limits.scaled(kBytesPerWord);
  }

 private:
  // The upper limit in words if all divided samples pass, whose error is added too.
  double upper_with_divided(double unseen_words) const {
    const double more = divided_more_words;
    const double of_each = variance_words2 > 0 ? grain() : unseen_words;
    return limits_of(words + more, variance_words2 + more * of_each,
                     skew_words3 + more * of_each * of_each, unseen_words)
        .upper;
  }
};

}  // namespace memprofd
