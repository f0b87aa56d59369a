// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "daemon/aggregate/aggregator.h"
#include "daemon/aggregate/observed_cells.h"

namespace memprofd {
namespace {

TEST(WeightScale, RoundsToOneOfTwoNeighbours) {
  for (const double weight : {16.0, 17.5, 1000.0, 131'072.5, 1e9}) {
    const auto low = WeightScale::round(weight, 0.999999999), high = WeightScale::round(weight, 0);
    ASSERT_TRUE(low && high);
    EXPECT_LE(WeightScale::words(*low), weight * (1 + 1e-9));
    EXPECT_GE(WeightScale::words(*high), weight * (1 - 1e-9));
    EXPECT_LE(*high - *low, 1);
  }
}

TEST(WeightScale, TheMeanIsTheWeight) {
  std::mt19937_64 dice(1);
  std::uniform_real_distribution<double> uniform;
  for (const double weight : {3.0, 40.0, 1234.0, 200'000.0}) {
    constexpr int kRounds = 200'000;
    double sum = 0;
    for (int i = 0; i < kRounds; ++i) {
      if (const auto step = WeightScale::round(weight, uniform(dice))) {
        sum += WeightScale::words(*step);
      }
    }
    // Five standard errors of the roughest, the one below the scale.
    EXPECT_NEAR(sum / kRounds, weight, weight < 16 ? 0.08 : weight * 0.0006);
  }
}

TEST(WeightScale, HasEnds) {
  EXPECT_FALSE(WeightScale::round(0, 0));
  EXPECT_FALSE(WeightScale::round(-5, 0));
  EXPECT_FALSE(WeightScale::round(std::nan(""), 0));
  EXPECT_EQ(WeightScale::round(1e30, 0.5), WeightScale::kSteps - 1);
  EXPECT_EQ(WeightScale::round(INFINITY, 0.5), WeightScale::kSteps - 1);
}

ObservedHit hit_at(std::uint32_t callstack, double words) {
  return {.callstack = CallstackId(callstack),
          .thread = 7,
          .domain = 0,
          .size_words = 3,
          .weight_words = words};
}

TEST(ObserveAggregate, AHitIsOneSampleOfItsWeight) {
  DropCounters drops;
  Aggregator aggregator({}, drops);
  const double weight = WeightScale::words(100);
  for (int i = 0; i < 4; ++i) aggregator.observe(hit_at(1, weight));
  const Estimate& allocated = aggregator.totals().allocated[0][0];
  EXPECT_EQ(allocated.samples, 4);
  EXPECT_NEAR(allocated.words, 4 * weight, weight * 1e-9);
  EXPECT_NEAR(allocated.variance_words2, 4 * weight * (weight - 1), weight * weight * 1e-9);
  const Counters& counters = aggregator.by_class().back();
  EXPECT_NEAR(counters.allocated_objects, weight, weight * 1e-9);  // blocks of 3 + 1 words
  EXPECT_EQ(counters.live.samples, 0);
  EXPECT_EQ(aggregator.live().size(), 0);
  EXPECT_EQ(drops.total(), 0);
}

TEST(ObserveAggregate, HistoryAddsUpToTheTotals) {
  DropCounters drops;
  Aggregator aggregator({}, drops);
  std::mt19937_64 random(2);
  double told = 0, variance = 0, live = 0;
  const auto use = [&](const Interval& interval, double rate) {
    for (const IntervalCell& cell : interval.cells()) {
      told += cell.allocated / rate;
      variance += cell.allocated * weight_of_word(rate).variance_words2;
      live += cell.allocated - cell.never_followed;
    }
  };
  double weights = 0;
  for (int i = 0; i < 3000; ++i) {
    const double weight = std::exp2(static_cast<double>(random() % 18));
    weights += weight;
    aggregator.observe(hit_at(1 + i % 5, weight));
    if (i % 1000 == 999) aggregator.close_interval(use);
  }
  const Estimate& allocated = aggregator.totals().allocated[0][0];
  EXPECT_NEAR(told, allocated.words, 1e-6 * told);
  EXPECT_NEAR(variance, allocated.variance_words2, 1e-6 * variance);
  EXPECT_EQ(live, 0);
  EXPECT_NEAR(told, weights, 0.01 * weights);
  bool any = false;
  aggregator.peek([&](const Interval&, double) { any = true; });
  EXPECT_FALSE(any);
}

// The claim of docs/internals/sampling.md: the standard error that is shown is the spread that is
// seen, for hits at a fixed distance that fall on a site by chance.
TEST(ObserveAggregate, TheErrorShownIsTheSpreadSeen) {
  std::mt19937_64 random(3);
  constexpr int kRuns = 400, kHits = 200;
  constexpr double kWeight = 131'072, kShare = 0.1;
  double sum = 0, squares = 0, shown = 0;
  for (int run = 0; run < kRuns; ++run) {
    DropCounters drops;
    Aggregator aggregator({}, drops);
    for (int i = 0; i < kHits; ++i) {
      const bool here = std::bernoulli_distribution(kShare)(random);
      aggregator.observe(hit_at(here ? 1 : 2, kWeight));
    }
    Estimate site;
    for (std::uint32_t id = 0; id < aggregator.by_class().size(); ++id) {
      if (aggregator.classes().get(ClassId(id)).callstack == CallstackId(1)) {
        site += aggregator.by_class()[id].allocated;
      }
    }
    sum += site.words;
    squares += site.words * site.words;
    shown += site.variance_words2;
  }
  const double mean = sum / kRuns, spread = squares / kRuns - mean * mean;
  EXPECT_NEAR(mean, kShare * kHits * kWeight, 0.06 * mean);
  // A tenth above, because the number of all hits is fixed; 400 runs tell it to 7 %.
  EXPECT_NEAR(shown / kRuns / spread, 1.1, 0.3);
}

// A hundred thousand classes and weights over 20 octaves.
TEST(ObserveAggregate, MemoryIsThatOfTheHitsAndHasALimit) {
  DropCounters drops;
  Aggregator aggregator({}, drops);
  for (std::uint32_t i = 0; i < 100'000; ++i) aggregator.observe(hit_at(i, 100));
  aggregator.close_interval([](const Interval&, double) {});
  const std::uint64_t dropped = drops.total();
  for (std::uint32_t i = 0; i < 1'600; ++i) {
    aggregator.observe(hit_at(1, WeightScale::words(i % 160)));
  }
  EXPECT_LT(aggregator.observed_bytes(), 64u << 10) << "one class, 160 weights";
  EXPECT_EQ(drops.total(), dropped);
  for (std::uint32_t i = 0; i < 400'000; ++i) {
    aggregator.observe(hit_at(i % 100'000, WeightScale::words(i / 100'000 * 50)));
  }
  EXPECT_LE(aggregator.observed_bytes(), 4u << 20);
  EXPECT_GT(drops.get(Drop::kFollowClassesFull), 0u) << "what does not fit is of the unknown class";
  double told = 0, unknown = 0;
  aggregator.close_interval([&](const Interval& interval, double rate) {
    for (const IntervalCell& cell : interval.cells()) {
      told += cell.allocated / rate;
      if (cell.alloc_class == ClassId()) unknown += cell.allocated / rate;
    }
  });
  EXPECT_GT(unknown, 0);
  EXPECT_EQ(aggregator.observed_bytes(), 0u) << "given back";
  double total = aggregator.totals().allocated[0][0].words - 100'000 * 100;
  EXPECT_NEAR(told / total, 1, 0.001) << "nothing is lost";
}

}  // namespace
}  // namespace memprofd
