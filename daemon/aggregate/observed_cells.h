// SPDX-License-Identifier: Apache-2.0
// Hits of observe mode.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/aggregate/interval.h"

namespace memprofd {

// Weights of observed hits on a scale of 8 steps per octave, so that history stores them at few
// rates. A weight is rounded to one of its two neighbours at random so that the mean is preserved:
// sums over hits are unbiased, and rounding adds less than 0.2 % to their variance. The lower
// neighbour of a weight below the smallest step is zero.
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

// Hits in one interval: the number by class and weight.
//
// Each distinct hit has an entry of its own, instead of an index over all classes for each weight,
// so that the memory is proportional to the entries and has a limit. It is freed when the interval
// is closed. Until then it grows with the distinct hits, not with each hit.
class ObservedCells {
 public:
  // The cells take at most 2 MiB.
  static constexpr std::size_t kMaxCells = 65'536;

  // True if there is room for a hit of that class and step of WeightScale. The unknown class always
  // fits: it has at most one cell per step.
  bool fits(ClassId alloc_class, std::size_t step) const {
    return hits_.size() < kMaxCells || alloc_class == ClassId() ||
           hits_.contains({static_cast<std::uint32_t>(step), alloc_class});
  }
  void add(ClassId alloc_class, std::size_t step) {
    ++hits_[{static_cast<std::uint32_t>(step), alloc_class}];
  }
  void clear() { hits_ = {}; }
  // The table has a slot and a control byte for each place, including empty ones.
  std::size_t memory_bytes() const { return hits_.capacity() * (sizeof(Hits::value_type) + 1); }

  // Calls use(interval, rate) for each weight. The cells contain hits, whose blocks are not
  // followed.
  template <typename Use>
  void for_each_weight(Use use) const;

 private:
  struct Kind {
    std::uint32_t step;
    ClassId alloc_class;

    friend bool operator==(const Kind&, const Kind&) = default;
    friend auto operator<=>(const Kind& a, const Kind& b) {
      return std::pair(a.step, a.alloc_class.value()) <=> std::pair(b.step, b.alloc_class.value());
    }
    template <typename H>
    friend H AbslHashValue(H h, const Kind& kind) {
      return H::combine(std::move(h), kind.step, kind.alloc_class.value());
    }
  };
  using Hits = absl::flat_hash_map<Kind, std::uint64_t>;

  std::vector<std::pair<Kind, std::uint64_t>> sorted() const {
    std::vector<std::pair<Kind, std::uint64_t>> result(hits_.begin(), hits_.end());
    std::sort(result.begin(), result.end());
    return result;
  }

  Hits hits_;
};

template <typename Use>
void ObservedCells::for_each_weight(Use use) const {
  const auto all = sorted();
  for (auto first = all.begin(); first != all.end();) {
    const std::uint32_t step = first->first.step;
    std::vector<IntervalCell> cells;
    for (; first != all.end() && first->first.step == step; ++first) {
      cells.push_back({.alloc_class = first->first.alloc_class,
                       .allocated = first->second,
                       .never_followed = first->second});
    }
    use(Interval(std::move(cells)), 1 / WeightScale::words(step));
  }
}

}  // namespace memprofd
