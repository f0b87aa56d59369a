// SPDX-License-Identifier: Apache-2.0
// How often chance breaks a limit of a rule that holds.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "daemon/rules/rule_check.h"
#include "daemon/util/estimate.h"

namespace memprofd {
namespace {

// A program that has exactly what is allowed breaks the limit in at most one of a thousand runs,
// and one that has a quarter more and enough samples nearly always does.
TEST(LimitChance, ChanceSeldomBreaksALimit) {
  constexpr double kRate = 1e-4;
  constexpr int kRuns = 100'000;
  std::mt19937_64 random(20261128);
  const auto share_broken = [&](double words, double limit_words) {
    std::poisson_distribution<int> samples(words * kRate);
    int broken = 0;
    for (int run = 0; run < kRuns; ++run) {
      Estimate estimate;
      estimate.add(static_cast<std::uint64_t>(samples(random)), weight_of_word(kRate));
      const double lower =
          lower_limit_of(estimate.bytes(), estimate.stderr_bytes(),
                         grain_words(kRate) * kBytesPerWord, quantile_of_chance(1e-3));
      if (lower > limit_words * kBytesPerWord) ++broken;
    }
    return static_cast<double>(broken) / kRuns;
  };
  // The sampling is binomial in truth, which has less chance than this.
  for (const double samples : {0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0, 1000.0}) {
    const double words = samples / kRate;
    EXPECT_LE(share_broken(words, words), 1e-3 + 4 * std::sqrt(1e-3 / kRuns)) << samples;
  }
  EXPECT_GT(share_broken(1000 / kRate, 800 / kRate), 0.99);
}

}  // namespace
}  // namespace memprofd
