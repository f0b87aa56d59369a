// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/median_age.h"

#include <algorithm>
#include <cmath>

#include "daemon/util/clock.h"

namespace memprofd {
namespace {

constexpr double kBothSides95 = 1.96;

// Interpolates the logarithm of the age between two ages. If 80 % are older than 16 s and 30 %
// older than 32 s, the median is 16 s * (32 / 16)^((80 - 50) / (80 - 30)) = 24 s.
double between_ages(const OlderShares& live) {
  double age = 0, share = 1;  // share of the words that are older than `age`
  for (std::size_t i = 0; i <= live.ages_ns.size(); ++i) {
    const bool last = i == live.ages_ns.size();
    const double next_age = static_cast<double>(last ? live.span_ns : live.ages_ns[i]);
    const double next = last ? 0 : std::min(share, live.older_words[i] / live.words);
    if (next <= 0.5) {
      const double part = share > next ? (share - 0.5) / (share - next) : 0;
      return age == 0 ? next_age * part : age * std::pow(next_age / age, part);
    }
    age = next_age;
    share = next;
  }
  return age;
}

// The limits are the nearest ages at which the older share differs from one half by more than its
// error. The error is that of one coin toss per sample, or per equivalent sample if samples stand
// for different numbers of words, plus half a sample because samples are whole numbers. For
// example, the median exceeds an age if 60 of 100 samples are older.
Limits age_limits(const OlderShares& live) {
  const double one = std::max(0.0, live.variance_words2) / (live.words * live.words);
  const double error = 0.5 * kBothSides95 * std::sqrt(one) + 0.5 * one;
  Limits limits{0, static_cast<double>(live.span_ns)};
  for (std::size_t i = 0; i < live.ages_ns.size(); ++i) {
    const double share = live.older_words[i] / live.words;
    const auto age = static_cast<double>(live.ages_ns[i]);
    if (share >= 0.5 + error) limits.lower = age;
    if (share > 0.5 - error) continue;
    limits.upper = age;
    break;
  }
  return limits;
}

}  // namespace

MedianAge median_age(const OlderShares& live) {
  if (live.words <= 0) return {};
  return {between_ages(live) / kNsPerSecond, age_limits(live).scaled(1 / kNsPerSecond)};
}

}  // namespace memprofd
