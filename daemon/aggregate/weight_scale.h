// SPDX-License-Identifier: Apache-2.0
// Weights of observed hits on a scale of 8 steps per octave, so that history stores them at few
// rates. A weight is rounded to one of its two neighbours at random so that the mean is preserved:
// sums over hits are unbiased, and rounding adds less than 0.2 % to their variance. The lower
// neighbour of a weight below the smallest step is zero.
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

  // dice: uniform in [0, 1). Returns nullopt if the hit does not count.
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
