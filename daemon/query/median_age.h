// SPDX-License-Identifier: Apache-2.0
// The median age of live memory, computed from the amounts older than some given ages.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/util/estimate.h"

namespace memprofd {

struct OlderShares {
  double words = 0;                        // live words
  double variance_words2 = 0;              // variance of the live words due to sampling
  std::span<const std::uint64_t> ages_ns;  // ascending, below span_ns
  std::span<const double> older_words;     // words older than each of the ages
  std::uint64_t span_ns = 0;               // all memory is younger
};

struct MedianAge {
  double seconds = 0;  // 0 if nothing is live
  Limits limits;       // 95 %; no narrower than the distance of the ages
};

MedianAge median_age(const OlderShares& live);

}  // namespace memprofd
