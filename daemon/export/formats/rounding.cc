// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace memprofd {
namespace {

// From 2^53 on doubles have no fractions, and a thousand of them fit into an int64.
constexpr double kLargest = 9007199254740992.0;

double sane(double value) { return value > 0 ? std::min(value, kLargest) : 0; }

}  // namespace

std::vector<std::int64_t> round_keeping_sum(const std::vector<double>& values) {
  std::vector<std::int64_t> result(values.size());
  std::vector<double> fractions(values.size());
  std::vector<std::size_t> order;  // indexes of values with a fraction
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = sane(values[i]);
    result[i] = static_cast<std::int64_t>(value);
    fractions[i] = value - static_cast<double>(result[i]);
    sum += fractions[i];
    if (fractions[i] > 0) order.push_back(i);
  }
  const std::size_t up = std::min(static_cast<std::size_t>(std::llround(sum)), order.size());
  const auto by_fraction = [&](std::size_t a, std::size_t b) {
    return fractions[a] != fractions[b] ? fractions[a] > fractions[b] : a < b;
  };
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(up), order.end(),
                   by_fraction);
  for (std::size_t i = 0; i < up; ++i) ++result[order[i]];
  return result;
}

}  // namespace memprofd
