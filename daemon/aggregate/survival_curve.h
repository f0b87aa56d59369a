// SPDX-License-Identifier: Apache-2.0
// Estimates the lifetimes of blocks from dead and live blocks.
//
// Dead blocks alone are biased towards short lifetimes: of blocks with a mean lifetime of 60 s,
// those that died within one minute of observation lived for 19 s. A block that is still alive, or
// no longer followed, has lived for at least its age, and this counts: it was at risk of dying up
// to that age and did not die. S is the share of the words that live longer than an age. In each
// bucket of ages it falls by the share q of the words at risk that die in it (product-limit
// estimator: Kaplan and Meier, J. Am. Stat. Assoc. 53, 1958; in its actuarial form for ages by
// class: Cutler and Ederer, J. Chronic Dis. 8, 1958):
//
//   q_i = d_i / r_i      S_i = S_(i-1) (1 - q_i)      r_i = n_i - c_i / 2 - m_i
//
// where n words enter bucket i, d of them die in it and c are last seen alive in it; m words were
// not observed yet (LateEntries).
//
//   bucket    0-1 s   1-2 s   2-4 s     10 samples of equal weight: 3 die, 7 are alive, of which
//   n            10       7       4     2 are 0.5 s old, 2 are 1.5 s old, and 3 are 3 s old
//   d             1       1       1
//   c             2       2       3     of the dead alone, 2 of 3 lived at most 2 s
//   r             9       6     2.5
//   S          0.89    0.74    0.44     p50 is in the last bucket, at 3.5 s; p90 not reached
//
// The error is Greenwood's (Rep. Publ. Health Med. Subj. 33, 1926). Each block has its own weight
// w, because rates differ (linearised; for equal weights this is Greenwood's q / ((1 - q) r)):
//
//   var(ln S) = sum of ((1 - q)^2 D2 + q^2 (R2 - D2)) / (r (1 - q))^2     D2, R2: sums of w^2
//
// S then has the error of a binomial share among n' = (1 - S) / (S var(ln S)) blocks, and its 95 %
// limits are Wilson's limits for such a share (Rothman, J. Chronic Dis. 31, 1978), which also hold
// for few blocks and at S = 1. A quantile lies between the ages at which the lower and the upper
// limit of S pass it (Brookmeyer and Crowley, Biometrics 38, 1982), widened to the ends of their
// buckets, because a lifetime is known only by bucket.
//
// The method assumes that forgotten blocks do not differ from the others. The limits cover the
// random choice of the sampled blocks.
#pragma once

#include <array>
#include <optional>

#include "daemon/aggregate/counters.h"

namespace memprofd {

class SurvivalCurve {
 public:
  // A lifetime in ns that a given share of the words does not exceed.
  struct Quantile {
    // Unset if the curve does not reach it: the lifetime is longer than watched_ns().
    std::optional<double> ns;
    // The interval contains it in 95 of 100 cases, or with the requested probability. Without an
    // upper limit it may be arbitrarily long.
    double lower_ns = 0;
    std::optional<double> upper_ns;
  };

  // The share of words that live longer than an age, with 95 % limits.
  struct Share {
    double survival = 1;
    double lower = 1;
    double upper = 1;
  };

  static constexpr double kNormal95 = 1.959964;  // two-sided quantile of the normal distribution

  // Uses all blocks in the deaths, forgotten, ages and late of these counters. quantile: width of
  // all limits, in standard errors.
  explicit SurvivalCurve(const Counters& counters, double quantile = kNormal95);

  // True if no block was observed, so that nothing is known.
  bool empty() const { return watched_ == 0; }
  // The quantile for a share q of 0 to 1.
  Quantile quantile(double q) const;
  // The share that survives the end of a bucket of LifetimeHistogram.
  const Share& at(int bucket) const { return steps_[bucket]; }
  // The maximum age in ns that the curve covers.
  double watched_ns() const;
  // The share of the observed words that is alive.
  double alive_ratio() const { return alive_ratio_; }

 private:
  static constexpr int kBuckets = LifetimeHistogram::kBuckets;

  std::array<Share, kBuckets> steps_;
  int watched_ = 0;    // number of the first bucket from which on nothing was at risk
  bool open_ = false;  // some blocks were last seen alive in the last observed bucket
  double alive_ratio_ = 0;
};

// The lifetime to show as a single number: the median in ns, or the time that it exceeds; 0 if
// nothing is known.
double median_at_least_ns(const Counters& counters);

}  // namespace memprofd
