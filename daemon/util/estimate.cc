// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/estimate.h"

#include <algorithm>
#include <array>
#include <limits>

namespace memprofd {
namespace {

constexpr double kTail = 0.025;  // of each side
constexpr double kQuantile = 1.959964;

// The probability that a Poisson variable of the mean is at least count: the regularized lower
// incomplete gamma function, by its series (Abramowitz and Stegun 6.5.29).
double at_least(double count, double mean) {
  if (count <= 0) return 1;
  if (mean <= 0) return 0;
  double term = 1, sum = 1;
  for (double i = 1; term > sum * std::numeric_limits<double>::epsilon(); ++i) {
    term *= mean / (count + i);
    sum += term;
  }
  return std::min(1.0, sum * std::exp(count * std::log(mean) - mean - std::lgamma(count + 1)));
}

// The mean for which higher counts, together with half of this count itself, have this probability.
double mean_at(double count, double probability) {
  double low = 0, high = count + 6 * std::sqrt(count + 1) + 10;
  for (int i = 0; i < 60; ++i) {
    const double mean = (low + high) / 2;
    const double mid_p = (at_least(count, mean) + at_least(count + 1, mean)) / 2;
    (mid_p < probability ? low : high) = mean;
  }
  return (low + high) / 2;
}

// Distances of the limits from the count, indexed by its square root, of which they are nearly
// linear functions.
class CountLimits {
 public:
  static constexpr double kLargestRoot = 10;

  CountLimits() {
    for (std::size_t i = 0; i < below_.size(); ++i) {
      const double root = static_cast<double>(i) / kSteps, count = root * root;
      below_[i] = count - (count > 0 ? mean_at(count, kTail) : 0);
      above_[i] = mean_at(count, 1 - kTail) - count;
    }
  }
  // count must be below kLargestRoot squared.
  Limits of(double count) const {
    const double place = std::sqrt(count) * kSteps;
    const auto at = static_cast<std::size_t>(place);
    const double part = place - static_cast<double>(at);
    const auto between = [&](const Distances& distances) {
      return distances[at] + part * (distances[at + 1] - distances[at]);
    };
    return {std::max(0.0, count - between(below_)), count + between(above_)};
  }

 private:
  static constexpr int kSteps = 16;  // of a root of 1
  using Distances = std::array<double, static_cast<std::size_t>(kLargestRoot* kSteps) + 1>;
  Distances below_;
  Distances above_;
};

// Byar's approximation of the mid-P limits (Rothman and Boice 1979): within 0.1 % for counts from
// 100 on.
double byar(double count, double quantile) {
  const double middle = count + 0.5;
  return middle * std::pow(1 - 1 / (9 * middle) + quantile / (3 * std::sqrt(middle)), 3);
}

double distance(double a, double b) { return std::sqrt(a * a + b * b); }

}  // namespace

Limits count_limits(double count) {
  static const CountLimits limits;
  count = std::max(0.0, count);
  if (count < CountLimits::kLargestRoot * CountLimits::kLargestRoot) return limits.of(count);
  return {byar(count, -kQuantile), byar(count, kQuantile)};
}

Limits limits_of(double value, double variance, double skew, double unseen) {
  const bool sure = !(variance > 0 && skew > 0);
  const double grain = sure ? unseen : skew / variance;
  if (!(grain > 0)) return {value, value};
  const double count = sure ? 0 : variance / (grain * grain);
  const Limits of_count = count_limits(count);
  const double missed = count_limits(0).upper * std::max(0.0, unseen - grain);
  return {std::max(0.0, value - grain * (count - of_count.lower)),
          value + distance(grain * (of_count.upper - count), missed)};
}

double lower_limit_of(double value, double standard_error, double grain, double quantile) {
  if (!(standard_error > 0) || !(grain > 0)) return value;
  const double count = standard_error * standard_error / (grain * grain);
  // Half of the count's own probability is included, as in mid-P. Otherwise chance would exceed the
  // limit too often for few samples.
  const double lower = count > 0.5 ? std::max(0.0, byar(count - 0.5, -quantile)) : 0;
  return std::max(0.0, value - grain * (count - lower));
}

double upper_limit_of(double value, double standard_error, double grain, double quantile) {
  if (!(grain > 0)) return value;
  const double count = standard_error * standard_error / (grain * grain);
  return value + grain * (byar(count + 0.5, quantile) - count);
}

Limits difference_limits(double a, const Limits& of_a, double b, const Limits& of_b) {
  return {b - a - distance(b - of_b.lower, of_a.upper - a),
          b - a + distance(of_b.upper - b, a - of_a.lower)};
}

}  // namespace memprofd
