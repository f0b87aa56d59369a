// SPDX-License-Identifier: Apache-2.0
// Weights of observed hits on a scale of 8 steps an octave, so that history keeps them
// by few rates. A weight becomes one of its two neighbours by chance, so that its mean
// is right: sums over hits are unbiased, and what this adds to their variance is below
// 0.2 % of it. Below the smallest step the other neighbour is nothing.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>

namespace memprofd {

class WeightScale {
 public:
  static constexpr double kSmallestWords = 16;
  static constexpr int kStepsAnOctave = 8;
  static constexpr std::size_t kSteps = 36 * kStepsAnOctave;  // up to 2^40 words

  static double words(std::size_t step) {
    return kSmallestWords * std::exp2(static_cast<double>(step) / kStepsAnOctave);
  }

  // dice: uniform in [0, 1). Nothing when the hit does not count.
  static std::optional<std::size_t> round(double weight, double dice) {
    if (!(weight > 0)) return std::nullopt;
    if (weight < kSmallestWords) {
      return dice < weight / kSmallestWords ? std::optional<std::size_t>(0) : std::nullopt;
    }
    const double place = std::floor(std::log2(weight / kSmallestWords) * kStepsAnOctave);
    if (place >= static_cast<double>(kSteps - 1)) return kSteps - 1;
    const auto below = static_cast<std::size_t>(place);
    const double low = words(below), high = words(below + 1);
    return dice < (weight - low) / (high - low) ? below + 1 : below;
  }
};

}  // namespace memprofd
