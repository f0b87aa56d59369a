// SPDX-License-Identifier: Apache-2.0
// Deaths that count partially, and their rounding to whole samples.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "daemon/aggregate/death_counts.h"

namespace memprofd {

// Rounds numbers of samples and preserves their sum: each rounding error is carried to the next
// number.
class SampleRounding {
 public:
  std::uint64_t whole(double samples) {
    const double wanted = samples + rest_;
    const double n = std::max(0.0, std::round(wanted));
    rest_ = std::max(wanted - n, -1.0);
    return static_cast<std::uint64_t>(n);
  }

 private:
  double rest_ = 0;
};

// The deaths of one row, by code.
class PartialDeaths {
  struct Part {
    std::uint8_t code;
    double samples;
    double words;
    double squares;
  };

 public:
  void add(std::uint8_t code, double samples, double words, double squares) {
    const auto at =
        std::lower_bound(parts_.begin(), parts_.end(), code,
                         [](const Part& part, std::uint8_t sought) { return part.code < sought; });
    if (at != parts_.end() && at->code == code) {
      at->samples += samples;
      at->words += words;
      at->squares += squares;
    } else {
      parts_.insert(at, {code, samples, words, squares});
    }
  }
  DeathCounts whole(std::array<SampleRounding, kHeaps>& rounding) const {
    DeathCounts result;
    for (const auto& [code, samples, words, squares] : parts_) {
      const Heap heap = DeathCounts::Entry{code, 0}.heap();
      const std::uint64_t n = rounding[static_cast<int>(heap)].whole(samples);
      const double scale = static_cast<double>(n) / samples;
      if (n > 0) result.add({code, n, words * scale, squares * scale});
    }
    return result;
  }

 private:
  std::vector<Part> parts_;
};

}  // namespace memprofd
