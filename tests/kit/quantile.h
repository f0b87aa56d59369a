// SPDX-License-Identifier: Apache-2.0
// Quantiles of lifetimes, computed directly from the histogram of dead blocks.
#pragma once

#include "daemon/aggregate/lifetime_histogram.h"

namespace memprofd::testing {

// Lifetime in ns below which the fraction q (0..1) of the words lies; 0 if there are none.
inline double quantile_ns(const LifetimeHistogram& histogram, double q) {
  double all = 0;
  for (int i = 0; i < LifetimeHistogram::kBuckets; ++i) all += histogram.words(i);
  double below = 0;
  for (int i = 0; i < LifetimeHistogram::kBuckets; ++i) {
    const double here = histogram.words(i);
    if (here > 0 && below + here >= q * all) {
      return LifetimeHistogram::value_at(i, (q * all - below) / here);
    }
    below += here;
  }
  return 0;
}

}  // namespace memprofd::testing
