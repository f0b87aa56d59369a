// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/estimate.h"

#include <gtest/gtest.h>

#include <random>

namespace memprofd {
namespace {

TEST(EstimateTest, SamplesStandForWordsOverRate) {
  Estimate estimate;
  estimate.add(3, weight_of_word(0.01));
  EXPECT_EQ(estimate.samples, 3u);
  EXPECT_DOUBLE_EQ(estimate.words, 300);
  EXPECT_DOUBLE_EQ(estimate.bytes(), 2400);
  EXPECT_DOUBLE_EQ(estimate.stderr_bytes(), 8 * std::sqrt(3.0) / 0.01);
}

TEST(EstimateTest, SumsKeepTheirErrorWhenTheRateChanges) {
  Estimate a, b;
  a.add(1, weight_of_word(0.1));
  b.add(4, weight_of_word(0.5));
  a += b;
  EXPECT_EQ(a.samples, 5u);
  EXPECT_DOUBLE_EQ(a.words, 18);
  EXPECT_DOUBLE_EQ(a.variance_words2, 100 + 16);
}

TEST(EstimateTest, NoResidueAtZeroSamples) {
  Estimate estimate;
  for (int i = 1; i <= 1000; ++i) estimate.add(i, weight_of_word(1.0 / (3 + i)));
  for (int i = 1; i <= 1000; ++i) estimate.subtract(i, weight_of_word(1.0 / (3 + i)));
  EXPECT_EQ(estimate.samples, 0u);
  EXPECT_EQ(estimate.words, 0);
  EXPECT_EQ(estimate.stderr_bytes(), 0);
}

// 400 trials of sampling 100,000 words at 1e-3: the mean is unbiased and the
// standard error is what the trials scatter by.
TEST(EstimateTest, StandardErrorIsTheScatter) {
  constexpr double kRate = 1e-3, kWords = 100000;
  std::mt19937 random(1);
  std::binomial_distribution<int> samples(static_cast<int>(kWords), kRate);
  double sum = 0, squares = 0, stated = 0;
  constexpr int kTrials = 400;
  for (int i = 0; i < kTrials; ++i) {
    Estimate estimate;
    estimate.add(samples(random), weight_of_word(kRate));
    sum += estimate.words;
    squares += (estimate.words - kWords) * (estimate.words - kWords);
    stated += estimate.stderr_bytes() / kBytesPerWord;
  }
  const double scatter = std::sqrt(squares / kTrials);
  EXPECT_NEAR(sum / kTrials, kWords, 4 * scatter / std::sqrt(kTrials));
  EXPECT_NEAR(stated / kTrials, scatter, 0.15 * scatter);
}

// 2,000 trials of ten blocks of 3,000 to 12,000 words each at a rate at which about half of them
// are sampled. Their samples would scatter by 120 % of that.
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

}  // namespace
}  // namespace memprofd
