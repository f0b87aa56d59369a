// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/leak_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace memprofd {
namespace {

using ::testing::ElementsAre;

// One step for each number; what is live after it.
LiveTrend course_of(std::initializer_list<double> live) {
  LiveTrend course(*live.begin());
  double before = *live.begin();
  for (const double now : std::vector<double>(live.begin() + 1, live.end())) {
    if (now > before) course.born(now - before, 1);
    if (now < before) course.gone(before - now, 1);
    before = now;
    course.end_window(1);
    course.end_step();
  }
  return course;
}

TEST(LeakEvidence, ARiseIsNoChanceAndASawIs) {
  EXPECT_NEAR(course_of({3, 1, 4, 6}).chance_of_rise(), 0.154, 0.001);
  EXPECT_LT(course_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}).chance_of_rise(), 1e-5);
  EXPECT_GT(course_of({0, 10, 20, 30, 0, 10, 20, 30, 0, 10, 20, 30}).chance_of_rise(), 0.05);
  EXPECT_GT(course_of({12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}).chance_of_rise(), 0.99999);
}

TEST(LeakEvidence, EqualStepsSayNothing) {
  EXPECT_EQ(course_of({5, 5, 5, 5}).chance_of_rise(), 1);
  // 8 of 15 pairs rise: with 7 that are equal that is more of a rise than with 7 that are not.
  EXPECT_LT(course_of({1, 1, 1, 1, 2, 2}).chance_of_rise(), 0.06);
  EXPECT_EQ(course_of({5, 5, 6, 7}).steadiness(), 2.0 / 3);
}

TEST(LeakEvidence, WhatComesFiveAtATimeIsFiveTimesAsUncertain) {
  std::mt19937_64 random(7);
  for (const int each : {1, 5}) {
    LiveTrend course;
    std::poisson_distribution<int> bursts(0.5);
    for (int window = 0; window < 4000; ++window) {
      // Comes and goes within a step, which hides it from the steps.
      const int n = bursts(random) * each;
      course.born(n, 100);
      course.gone(n, 100);
      course.end_window(1);
      if (window % 10 == 9) course.end_step();
    }
    EXPECT_NEAR(course.dispersion(), each, 0.15 * each);
  }
}

TEST(LeakEvidence, WindowsMayBeOfAnyLength) {
  LiveTrend course;
  for (int window = 0; window < 40; ++window) {
    const double seconds = window % 2 == 0 ? 1 : 10;
    course.born(3 * seconds, 100);
    course.end_window(seconds);
    if (window % 2 == 1) course.end_step();
  }
  EXPECT_EQ(course.dispersion(), 1) << "an even flow";
}

// Sessions of a few seconds and of minutes, of an even flow.
TEST(LeakEvidence, StepsMayBeOfAnyLength) {
  LiveTrend steady;
  for (const double seconds : {1.0, 30.0, 2.0}) {
    for (int step = 0; step < 8; ++step) {
      steady.born(5 * seconds, 100);
      steady.end_window(seconds);
      steady.end_step();
    }
    steady.end_span();
  }
  EXPECT_EQ(steady.dispersion(), 1) << "an even flow";
  EXPECT_FALSE(steady.has_slowed_down(1));
}

TEST(LeakEvidence, AShortLastSessionIsNoSlowing) {
  LiveTrend course;
  for (const double seconds : {60.0, 6.0}) {
    for (int step = 0; step < 10; ++step) {
      course.born(seconds, 100);
      course.end_window(seconds);
      course.end_step();
    }
    course.end_span();
  }
  EXPECT_FALSE(course.has_slowed_down(100));
}

TEST(LeakEvidence, WhatFillsSlowsDown) {
  EXPECT_TRUE(course_of({0, 5, 9, 11, 12, 12, 12}).has_slowed_down(1));
  EXPECT_FALSE(course_of({0, 2, 4, 6, 8, 10, 12}).has_slowed_down(1));
  EXPECT_FALSE(course_of({0, 0, 0, 3, 6, 9, 12}).has_slowed_down(1)) << "it has just begun";
  EXPECT_FALSE(course_of({0, 1, 2, 3, 3, 4, 4}).has_slowed_down(2)) << "by chance";
}

// 0.01 / 4, 0.02 / 4 and so on are allowed, in ascending order.
TEST(LeakEvidence, TheMoreThereAreTheSurerTheyHaveToBe) {
  EXPECT_THAT(discoveries({0.008}), ElementsAre(true));
  EXPECT_THAT(discoveries({0.008, 0.5, 0.6, 0.7}), ElementsAre(false, false, false, false));
  EXPECT_THAT(discoveries({0.0048, 0.5, 0.002, 0.7}), ElementsAre(true, false, true, false));
  EXPECT_THAT(discoveries({0.0048, 0.5, 0.0002, 0.7}, 0.001),
              ElementsAre(false, false, true, false));
  EXPECT_TRUE(discoveries({}).empty());
}

TEST(LeakEvidence, SamplesToBeNamed) {
  EXPECT_EQ(samples_to_be_named(1), 8);
  EXPECT_EQ(samples_to_be_named(1000), 21);
  EXPECT_NEAR(chance_beyond(1.645), 0.05, 1e-4);
}

constexpr std::uint64_t kBegin = 1'000, kEnd = 101'000'000'000;

std::vector<LargeBlock> blocks(const std::vector<std::pair<int, double>>& born) {
  std::vector<LargeBlock> result;
  for (const auto& [second, words] : born) {
    result.push_back({kBegin + static_cast<std::uint64_t>(second) * 1'000'000'000, words});
  }
  return result;
}

TEST(LeakSteps, ABufferThatDoublesIsALeak) {
  const auto growth = growth_in_steps(blocks({{10, 1e6}, {30, 2e6}, {70, 4e6}}), 4e6, kBegin, kEnd);
  ASSERT_TRUE(growth);
  EXPECT_DOUBLE_EQ(growth->begin_words, 0.5e6) << "it was full when the first replaced it";
  EXPECT_DOUBLE_EQ(growth->end_words, 2e6);
  EXPECT_NEAR(growth->words_stderr, 0, 1) << "twice as much took twice as long";
  EXPECT_DOUBLE_EQ(growth->seconds, 60);
  EXPECT_NEAR(growth->confidence, 1 - 1.0 / 6, 1e-9);
}

TEST(LeakSteps, HealthyBlocksAreNone) {
  EXPECT_FALSE(growth_in_steps(blocks({{10, 1e6}, {70, 2e6}}), 2e6, kBegin, kEnd)) << "too few";
  EXPECT_FALSE(growth_in_steps(blocks({{5, 1e6}, {10, 2e6}, {20, 4e6}}), 4e6, kBegin, kEnd))
      << "it has grown to what it needs";
  EXPECT_FALSE(growth_in_steps(blocks({{10, 1e6}, {30, 2e6}, {70, 2e6}}), 2e6, kBegin, kEnd))
      << "one as large is no growth";
  EXPECT_FALSE(growth_in_steps(blocks({{10, 1e6}, {30, 2e6}, {70, 4e6}}), 0, kBegin, kEnd))
      << "it is gone";
  EXPECT_FALSE(growth_in_steps(blocks({{10, 1e6}, {30, 2e6}, {70, 4e6}}), 7.4e6, kBegin, kEnd))
      << "nothing is replaced";
  EXPECT_FALSE(growth_in_steps({}, 0, kBegin, kEnd));
}

}  // namespace
}  // namespace memprofd
