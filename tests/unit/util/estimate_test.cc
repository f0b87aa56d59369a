// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/estimate.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <vector>

namespace memprofd {
namespace {

TEST(EstimateTest, SamplesStandForWordsOverRate) {
  Estimate estimate;
  estimate.add(3, weight_of_word(0.01));
  EXPECT_EQ(estimate.samples, 3u);
  EXPECT_DOUBLE_EQ(estimate.words, 300);
  EXPECT_DOUBLE_EQ(estimate.bytes(), 2400);
  EXPECT_DOUBLE_EQ(estimate.stderr_bytes(), 8 * std::sqrt(3.0 * 0.99) / 0.01);
}

TEST(EstimateTest, SumsKeepTheirErrorWhenTheRateChanges) {
  Estimate a, b;
  a.add(1, weight_of_word(0.1));
  b.add(4, weight_of_word(0.5));
  a += b;
  EXPECT_EQ(a.samples, 5u);
  EXPECT_DOUBLE_EQ(a.words, 18);
  EXPECT_DOUBLE_EQ(a.variance_words2, 0.9 * 100 + 4 * 0.5 * 4);
}

TEST(EstimateTest, NoResidueAtZeroSamples) {
  Estimate estimate;
  for (int i = 1; i <= 1000; ++i) estimate.add(i, weight_of_word(1.0 / (3 + i)));
  for (int i = 1; i <= 1000; ++i) estimate.subtract(i, weight_of_word(1.0 / (3 + i)));
  EXPECT_EQ(estimate.samples, 0u);
  EXPECT_EQ(estimate.words, 0);
  EXPECT_EQ(estimate.stderr_bytes(), 0);
}

// The floating-point remainder of a nearly empty sum has either sign.
TEST(EstimateTest, NoErrorIsBelowZero) {
  for (int n = 1; n <= 100; ++n) {
    const SampleWeight many = weight_of_word(1.0 / (30 + 997 * n));
    Estimate estimate;
    estimate.add(1, weight_of_word(1));
    estimate.add(n, many);
    for (int i = 0; i < n; ++i) estimate.subtract(1, many);
    EXPECT_GE(estimate.stderr_bytes(), 0) << n;
    EXPECT_GE(estimate.skew_words3, 0) << n;
    EXPECT_NEAR(estimate.words, 1, 1e-6) << n;
  }
}

// 20,000 trials of sampling N words: the mean is unbiased, and the stated variance equals the
// variance of the trials to 4 %, also with few samples and at a rate of 0.5.
TEST(EstimateTest, StandardErrorIsTheScatter) {
  constexpr int kTrials = 20'000;
  std::mt19937 random(1);
  for (const auto& [rate, words] : {std::pair{1e-3, 2'000}, {1e-3, 100'000}, {0.5, 1'000}}) {
    std::binomial_distribution<int> samples(words, rate);
    double sum = 0, squares = 0, stated = 0;
    for (int i = 0; i < kTrials; ++i) {
      Estimate estimate;
      estimate.add(samples(random), weight_of_word(rate));
      sum += estimate.words;
      squares += (estimate.words - words) * (estimate.words - words);
      stated += estimate.variance_words2;
    }
    EXPECT_NEAR(sum / kTrials, words, 4 * std::sqrt(squares) / kTrials) << words;
    EXPECT_NEAR(stated / squares, 1, 0.04) << words;
  }
}

// 2,000 trials of ten blocks of 3,000 to 12,000 words each at a rate that samples about half of
// them. Counting their samples instead would scatter by 120 % of that.
TEST(EstimateTest, LargeBlocksCountWithTheirOwnSizes) {
  constexpr double kRate = 1e-4;
  constexpr int kTrials = 2'000;
  std::mt19937 random(1);
  double sum = 0, squares = 0, stated = 0, words = 0;
  for (int block = 0; block < 10; ++block) words += 3'000 + 1'000 * block;
  for (int i = 0; i < kTrials; ++i) {
    Estimate estimate;
    for (int block = 0; block < 10; ++block) {
      const int size = 3'000 + 1'000 * block;
      if (std::binomial_distribution<int>(size, kRate)(random) == 0) continue;
      estimate.add(1, weight_of_block(size, kRate));
    }
    sum += estimate.words;
    squares += (estimate.words - words) * (estimate.words - words);
    stated += estimate.variance_words2;
  }
  const double scatter = std::sqrt(squares / kTrials);
  EXPECT_NEAR(sum / kTrials, words, 4 * scatter / std::sqrt(kTrials));
  EXPECT_NEAR(std::sqrt(stated / kTrials), scatter, 0.1 * scatter);
  EXPECT_LT(scatter, 0.85 * std::sqrt(words / kRate));
}

TEST(EstimateTest, BlocksThatAreSampledForCertainHaveNoError) {
  for (const double rate : {1.0, 0.1, 1e-4}) {
    const SampleWeight each = weight_of_block(1 << 21, rate);
    EXPECT_DOUBLE_EQ(each.words, 1 << 21) << rate;
    EXPECT_LT(each.variance_words2, 1) << rate;
  }
  EXPECT_NEAR(weight_of_block(1, 1e-9).words, 1e9, 1) << "a word";
}

TEST(EstimateTest, AtARateOfOneNothingIsUnsure) {
  Estimate estimate;
  estimate.add(5, weight_of_word(1));
  estimate.add(1, weight_of_block(1000, 1));
  EXPECT_EQ(estimate.words, 1005);
  EXPECT_EQ(estimate.stderr_bytes(), 0);
  EXPECT_EQ(estimate.limits_bytes(0), (Limits{8040, 8040}));
  EXPECT_EQ(Estimate().limits_bytes(grain_words(1)), (Limits{0, 0}));
}

// From tables of the mid-P limits of a Poisson count.
TEST(LimitsTest, UseMidPForACount) {
  const auto near = [](double count, double lower, double upper) {
    const Limits limits = count_limits(count);
    EXPECT_NEAR(limits.lower, lower, 0.01) << count;
    EXPECT_NEAR(limits.upper, upper, 0.01) << count;
  };
  near(0, 0, 2.996);
  near(1, 0.051, 4.931);
  near(3, 0.764, 8.156);
  near(10, 5.082, 17.82);
}

TEST(LimitsTest, IsContinuousInTheCount) {
  for (double count = 0; count < 400; count += 0.01) {
    const Limits a = count_limits(count), b = count_limits(count + 0.01);
    EXPECT_LE(a.lower, count);
    EXPECT_GE(a.upper, count);
    EXPECT_LE(a.lower, b.lower + 1e-3) << count;
    EXPECT_NEAR(a.lower, b.lower, 0.05) << count;
    EXPECT_NEAR(a.upper, b.upper, 0.05) << count;
  }
}

struct Blocks {
  int words;
  int blocks;
  double rate;
};

// Coverage of the limits, and how often the truth is below them.
struct Cover {
  double all = 0;
  double below = 0;
};
Cover cover(const std::vector<Blocks>& program, int trials) {
  std::mt19937_64 random(7);
  double truth = 0, unseen = 0;
  for (const Blocks& of : program) {
    truth += of.words * of.blocks * kBytesPerWord;
    unseen = std::max(unseen, grain_words(of.rate));
  }
  Cover result;
  for (int i = 0; i < trials; ++i) {
    Estimate estimate;
    for (const Blocks& of : program) {
      if (of.words < 512) {
        estimate.add(std::binomial_distribution<int>(of.words * of.blocks, of.rate)(random),
                     weight_of_word(of.rate));
      } else {
        const SampleWeight each = weight_of_block(of.words, of.rate);
        estimate.add(std::binomial_distribution<int>(of.blocks, of.words / each.words)(random),
                     each);
      }
    }
    const Limits limits = estimate.limits_bytes(unseen);
    result.all += limits.lower <= truth && truth <= limits.upper;
    result.below += truth < limits.lower;
  }
  return {result.all / trials, result.below / trials};
}

TEST(LimitsTest, CoversTheTruthOfSmallBlocks) {
  constexpr double kExpected[] = {0.3, 1, 1.7, 2.5, 3.2, 4.1, 5, 6.3, 8, 10, 15, 30, 100, 1000};
  double sum = 0;
  for (const double expected : kExpected) {
    const Cover covered = cover({{5, static_cast<int>(expected / 1e-4 / 5), 1e-4}}, 4000);
    EXPECT_GT(covered.all, 0.92) << expected;
    sum += covered.all;
  }
  EXPECT_NEAR(sum / std::size(kExpected), 0.955, 0.015);
}

// The worst case is a rate at which a few blocks make up half of all words or more.
TEST(LimitsTest, CoversTheTruthOfLargeBlocks) {
  for (const int words : {600, 1000, 5000, 10'000, 20'000, 40'000, 80'000}) {
    for (const int blocks : {3, 10, 50}) {
      EXPECT_GT(cover({{words, blocks, 1e-4}}, 2000).all, 0.91) << words << " x " << blocks;
    }
  }
}

TEST(LimitsTest, CoversTheTruthOfMixedSizes) {
  for (const int small : {200, 2000, 10'000}) {
    EXPECT_GT(cover({{100'000, 20, 1e-4}, {5, small, 1e-4}}, 2000).all, 0.93) << small;
  }
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> log_words(std::log(2), std::log(8e6));
  double sum = 0;
  constexpr int kPrograms = 12;
  for (int i = 0; i < kPrograms; ++i) {
    std::vector<Blocks> program;
    for (int block = 0; block < 30 << (i % 4 * 2); ++block) {
      program.push_back({static_cast<int>(std::exp(log_words(random))), 1, 1e-4});
    }
    sum += cover(program, 300).all;
  }
  EXPECT_NEAR(sum / kPrograms, 0.955, 0.015);
}

TEST(LimitsTest, CoversTheTruthAtHighRatesAndOverTwo) {
  for (const double rate : {0.5, 0.9}) {
    for (const int blocks : {4, 40, 400}) {
      EXPECT_GT(cover({{5, blocks, rate}}, 3000).all, 0.91) << rate << " " << blocks;
    }
  }
  for (const int blocks : {6'000, 20'000, 60'000}) {
    EXPECT_GT(cover({{5, 20'000, 1e-4}, {5, blocks, 1e-5}}, 3000).all, 0.93) << blocks;
  }
  EXPECT_GT(cover({{5, 2'000'000, 1e-4}, {5, 20'000, 1e-5}}, 3000).all, 0.93);
}

TEST(LimitsTest, ADifferenceHasBothSides) {
  const Limits none = count_limits(0), ten = count_limits(10);
  const Limits appeared = difference_limits(0, none, 10, ten);
  EXPECT_DOUBLE_EQ(appeared.upper, ten.upper) << "there may have been none";
  EXPECT_NEAR(appeared.lower, 10 - std::hypot(10 - ten.lower, 3.0), 0.01);
  EXPECT_LT(difference_limits(0, none, 3, count_limits(3)).lower, 0) << "not for certain";
  const Limits same = difference_limits(10, ten, 10, ten);
  EXPECT_DOUBLE_EQ(same.lower, -same.upper);
}

}  // namespace
}  // namespace memprofd
