// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/median_age.h"

#include <gtest/gtest.h>

#include <vector>

namespace memprofd {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

class MedianAgeTest : public ::testing::Test {
 protected:
  // words are live, a sample stands for each hundred of them.
  MedianAge of(double words, std::vector<double> older) {
    return median_age({.words = words,
                       .variance_words2 = words * 100,
                       .ages_ns = ages_,
                       .older_words = older,
                       .span_ns = 60 * kSecond});
  }
  const std::vector<std::uint64_t> ages_ = {kSecond, 4 * kSecond, 16 * kSecond};
};

TEST_F(MedianAgeTest, IsBetweenTheAgesThatItIsSurelyOlderAndYoungerThan) {
  const MedianAge age = of(10'000, {9'000, 7'000, 2'000});
  EXPECT_NEAR(age.seconds, 7, 0.1) << "4 s * 4^(20 / 50)";
  EXPECT_DOUBLE_EQ(age.limits.lower, 4);
  EXPECT_DOUBLE_EQ(age.limits.upper, 16);
}

TEST_F(MedianAgeTest, OfFewSamplesMayBeAnyAge) {
  const MedianAge age = of(300, {270, 210, 60});
  EXPECT_NEAR(age.seconds, 7, 0.1);
  EXPECT_DOUBLE_EQ(age.limits.lower, 0);
  EXPECT_DOUBLE_EQ(age.limits.upper, 60);
}

TEST_F(MedianAgeTest, LeavesAnAgeOpenThatAHalfOfTheSamplesMayBeOlderThan) {
  const MedianAge age = of(10'000, {9'000, 5'900, 4'100});
  EXPECT_DOUBLE_EQ(age.limits.lower, 1) << "59 of 100 samples are not yet enough";
  EXPECT_DOUBLE_EQ(age.limits.upper, 60);
  EXPECT_DOUBLE_EQ(of(10'000, {9'000, 6'100, 3'900}).limits.lower, 4);
}

TEST_F(MedianAgeTest, OfWhatIsNotThereIsNone) {
  const MedianAge age = of(0, {0, 0, 0});
  EXPECT_EQ(age.seconds, 0);
  EXPECT_EQ(age.limits.upper, 0);
}

}  // namespace
}  // namespace memprofd
