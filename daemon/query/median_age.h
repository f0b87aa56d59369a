// SPDX-License-Identifier: Apache-2.0
// The median age of live memory, from the amounts that are older than some ages.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/util/estimate.h"

namespace memprofd {

struct OlderShares {
  double words = 0;                        // live
  double variance_words2 = 0;              // of them, by sampling
  std::span<const std::uint64_t> ages_ns;  // ascending, below span_ns
  std::span<const double> older_words;     // than each of the ages
  std::uint64_t span_ns = 0;               // nothing is older
};

struct MedianAge {
  double seconds = 0;  // 0 when nothing is live
  Limits limits;       // 95 %; no closer than the ages
};

MedianAge median_age(const OlderShares& live);

}  // namespace memprofd
