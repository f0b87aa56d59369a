// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/survival_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "tests/kit/quantile.h"

namespace memprofd {
namespace {

constexpr double kSecond = 1e9;

std::uint64_t ns(double seconds) { return static_cast<std::uint64_t>(seconds * kSecond); }

struct Watch {
  Counters counters;

  void died(double seconds, double words = 1) {
    counters.deaths.add(Heap::kMinor, ns(seconds), 1, words);
  }
  void alive(double seconds, double words = 1) {
    counters.ages.add(Heap::kMinor, ns(seconds), 1, words);
  }
  void forgotten(double seconds, double words = 1) {
    counters.forgotten.add(Heap::kMinor, ns(seconds), 1, words);
  }
};

TEST(SurvivalCurve, NothingIsKnownOfNothing) {
  const SurvivalCurve curve{Counters()};
  EXPECT_TRUE(curve.empty());
  EXPECT_FALSE(curve.quantile(0.5).ns);
  EXPECT_EQ(curve.quantile(0.5).lower_ns, 0);
  EXPECT_FALSE(curve.quantile(0.5).upper_ns);
  EXPECT_EQ(curve.watched_ns(), 0);
}

// The example of survival_curve.h; its buckets are two of LifetimeHistogram's, so that each pair of
// them holds what leaves in its first half, and half of what is last seen alive there counts less.
TEST(SurvivalCurve, TheWorkedExample) {
  Watch watch;
  // A lifetime for each bucket: 0.1, 10 and 1000 s are buckets of their own.
  for (const double seconds : {0.1, 10.0, 1000.0}) watch.died(seconds);
  for (int i = 0; i < 2; ++i) watch.alive(0.1);
  for (int i = 0; i < 2; ++i) watch.alive(10);
  for (int i = 0; i < 3; ++i) watch.alive(1000);
  const SurvivalCurve curve(watch.counters);
  const int bucket = LifetimeHistogram::bucket_of(ns(1000));
  const double first = 8.0 / 9, second = first * 5 / 6, third = second * 0.6;
  ASSERT_TRUE(curve.quantile(0.5).ns);
  EXPECT_NEAR(*curve.quantile(0.5).ns,
              LifetimeHistogram::value_at(bucket, (second - 0.5) / (second - third)), 1);
  EXPECT_FALSE(curve.quantile(0.9).ns);
  EXPECT_DOUBLE_EQ(curve.watched_ns(), LifetimeHistogram::value_at(bucket, 0));
  EXPECT_DOUBLE_EQ(curve.alive_ratio(), 0.7);
}

TEST(SurvivalCurve, OfTheDeadAloneItIsTheirHistogram) {
  Watch watch;
  std::mt19937_64 random(1);
  std::exponential_distribution<double> lifetime(1);
  for (int i = 0; i < 1000; ++i) watch.died(lifetime(random), 1 + i % 7);
  const SurvivalCurve curve(watch.counters);
  const LifetimeHistogram histogram = watch.counters.deaths.histogram();
  for (const double q : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    EXPECT_NEAR(curve.quantile(q).ns.value() / testing::quantile_ns(histogram, q), 1, 1e-9) << q;
  }
  EXPECT_EQ(curve.alive_ratio(), 0);
}

TEST(SurvivalCurve, WhereNothingDiedNothingIsReached) {
  Watch watch;
  for (int i = 0; i < 100; ++i) watch.alive(0.6 * i);
  const SurvivalCurve curve(watch.counters);
  EXPECT_FALSE(curve.empty());
  for (const double q : {0.5, 0.9, 0.99}) {
    EXPECT_FALSE(curve.quantile(q).ns) << q;
    EXPECT_FALSE(curve.quantile(q).upper_ns) << q;
  }
  EXPECT_GT(curve.watched_ns(), 40 * kSecond);
  EXPECT_LE(curve.watched_ns(), 60 * kSecond);
  EXPECT_EQ(curve.alive_ratio(), 1);
  // Some are old enough: half of all live for at least 20 s.
  EXPECT_GT(curve.quantile(0.5).lower_ns, 20 * kSecond);
  EXPECT_EQ(median_at_least_ns(watch.counters), curve.watched_ns());
}

TEST(SurvivalCurve, OneBlockThatLivesTellsLittle) {
  Watch watch;
  watch.alive(1000);
  const SurvivalCurve curve(watch.counters);
  EXPECT_FALSE(curve.quantile(0.5).ns);
  EXPECT_EQ(curve.quantile(0.5).lower_ns, 0);
}

// A block at a hundredth of the rate stands for a hundred times the words, and for no more blocks.
TEST(SurvivalCurve, WeightsMoveTheCurveAndWidenItsError) {
  Watch equal, mixed;
  for (int i = 0; i < 1000; ++i) {
    equal.died(0.001);
    mixed.died(0.001, 100);
  }
  for (int i = 0; i < 1000; ++i) equal.died(4);
  for (int i = 0; i < 12; ++i) mixed.died(4, 10'000);
  const SurvivalCurve by_number(equal.counters), by_words(mixed.counters);
  EXPECT_NEAR(by_words.quantile(0.5).ns.value() / (4 * kSecond), 1, 0.42) << "6 of 11 words";
  // Ten of one kind and a dozen of the other: either may be more than half.
  EXPECT_LT(by_words.quantile(0.5).lower_ns, 0.001 * kSecond);
  EXPECT_GT(by_words.quantile(0.5).upper_ns.value(), 4 * kSecond);
  // 45 % against 55 %, each known to 1 %.
  EXPECT_LT(by_number.quantile(0.45).upper_ns.value(), 0.002 * kSecond);
  EXPECT_GT(by_number.quantile(0.55).lower_ns, 2 * kSecond);
}

// Blocks watched only from 100 s on give no information about the first 100 s.
TEST(SurvivalCurve, LateEntriesAreNotAtRiskBefore) {
  Watch watch;
  for (int i = 0; i < 50; ++i) watch.died(10);
  for (int i = 0; i < 50; ++i) watch.alive(30);
  for (int i = 0; i < 900; ++i) watch.alive(1000);
  EXPECT_FALSE(SurvivalCurve(watch.counters).quantile(0.1).ns);
  watch.counters.late.add({LifetimeHistogram::bucket_of(ns(100)), {900, 900}, {450, 450}});
  const SurvivalCurve late(watch.counters);
  EXPECT_NEAR(late.quantile(0.5).ns.value() / (10 * kSecond), 1, 0.42);
  EXPECT_FALSE(late.quantile(0.51).ns);
}

// They were at risk for the rest of the bucket in which watching began.
TEST(SurvivalCurve, LateEntriesAreAtRiskForAPartOfTheirBucket) {
  Watch watch;
  for (int i = 0; i < 100; ++i) watch.died(10);
  for (int i = 0; i < 100; ++i) watch.alive(10);
  const int bucket = LifetimeHistogram::bucket_of(ns(10));
  EXPECT_NEAR(SurvivalCurve(watch.counters).at(bucket).survival, 1 - 100.0 / 150, 1e-9);
  watch.counters.late.add({bucket, {100, 100}, {30, 30}});
  EXPECT_NEAR(SurvivalCurve(watch.counters).at(bucket).survival, 1 - 100.0 / 120, 1e-9);
}

// Blocks born at any time of a program's life, at a steady rate, and what is known of them when it
// has been watched for so long. Each has its own weight.
struct Model {
  double watched_seconds = 60;
  double session_seconds = 1e9;  // what is alive at its end is forgotten
  int blocks = 300;
  std::function<double(std::mt19937_64&)> lifetime;
  std::function<double(double born)> words = [](double) { return 1.0; };
};

Counters watch(const Model& model, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> birth(0, model.watched_seconds);
  Watch result;
  for (int i = 0; i < model.blocks; ++i) {
    const double born = birth(random), lived = model.lifetime(random);
    const double session_end =
        (std::floor(born / model.session_seconds) + 1) * model.session_seconds;
    const double words = model.words(born);
    if (born + lived <= std::min(session_end, model.watched_seconds)) {
      result.died(lived, words);
    } else if (session_end < model.watched_seconds) {
      result.forgotten(session_end - born, words);
    } else {
      result.alive(model.watched_seconds - born, words);
    }
  }
  return result.counters;
}

struct Calibration {
  double mean = 0;     // of the estimates that reached the quantile
  double reached = 0;  // share of runs
  // Shares of runs whose limits have the truth between them: those of the quantile, which are moved
  // out to the ends of buckets, and those of the share that lives longer than the bucket with it.
  double covered = 0, share_covered = 0;
};

// longer: the true share that lives longer than that many seconds.
Calibration calibrate(const Model& model, double q, double truth_seconds,
                      const std::function<double(double)>& longer) {
  constexpr int kRuns = 1000;
  const int bucket = LifetimeHistogram::bucket_of(ns(truth_seconds));
  const double share = longer(LifetimeHistogram::upper_bound_ns(bucket) / kSecond);
  Calibration result;
  double sum = 0;
  for (int run = 0; run < kRuns; ++run) {
    const SurvivalCurve curve(watch(model, 1000 + run));
    const auto quantile = curve.quantile(q);
    if (quantile.ns) {
      sum += *quantile.ns / kSecond;
      result.reached += 1.0 / kRuns;
    }
    const double upper = quantile.upper_ns.value_or(INFINITY);
    if (quantile.lower_ns <= truth_seconds * kSecond && truth_seconds * kSecond <= upper) {
      result.covered += 1.0 / kRuns;
    }
    const SurvivalCurve::Share& at = curve.at(bucket);
    if (at.lower <= share && share <= at.upper) result.share_covered += 1.0 / kRuns;
  }
  result.mean = sum / (result.reached * kRuns);
  return result;
}

double exponential(std::mt19937_64& random, double mean) {
  return std::exponential_distribution<double>(1 / mean)(random);
}

void expect_calibrated(const Model& model, double q, double truth,
                       const std::function<double(double)>& longer, double bias, const char* what) {
  const Calibration is = calibrate(model, q, truth, longer);
  std::printf("%-20s p%.0f: truth %8.4f mean %8.4f reached %.3f covered %.3f share %.3f\n", what,
              q * 100, truth, is.mean, is.reached, is.covered, is.share_covered);
  EXPECT_NEAR(is.mean / truth, 1, bias) << what;
  EXPECT_GE(is.covered, 0.93) << what;
  EXPECT_GE(is.reached, 0.95) << what;
  EXPECT_GE(is.share_covered, 0.93) << what;
  EXPECT_LE(is.share_covered, 0.975) << what;
}

// The case of the review: lifetimes of 60 s in the mean; of the dead alone p50 is 14 s after a
// minute, 23 s after two.
TEST(SurvivalCurve, CalibratedForExponentialLifetimes) {
  const auto lifetime = [](std::mt19937_64& random) { return exponential(random, 60); };
  const auto longer = [](double seconds) { return std::exp(-seconds / 60); };
  const double p50 = 60 * std::log(2), p90 = 60 * std::log(10);
  expect_calibrated({.watched_seconds = 120, .lifetime = lifetime}, 0.5, p50, longer, 0.02,
                    "after 2 min");
  expect_calibrated({.watched_seconds = 600, .lifetime = lifetime}, 0.5, p50, longer, 0.02,
                    "after 10 min");
  expect_calibrated({.watched_seconds = 600, .lifetime = lifetime}, 0.9, p90, longer, 0.03,
                    "after 10 min");
  // The median of so few is above the truth in the mean.
  expect_calibrated({.watched_seconds = 600, .blocks = 20, .lifetime = lifetime}, 0.5, p50, longer,
                    0.08, "20 blocks");
}

TEST(SurvivalCurve, CalibratedForMixedLifetimes) {
  // 70 % live for 1 ms in the mean, the others for 100 s: half live for less than 1.25 ms, 90 %
  // for less than 110 s.
  const auto lifetime = [](std::mt19937_64& random) {
    return std::bernoulli_distribution(0.7)(random) ? exponential(random, 0.001)
                                                    : exponential(random, 100);
  };
  const auto longer = [](double seconds) {
    return 0.7 * std::exp(-seconds / 0.001) + 0.3 * std::exp(-seconds / 100);
  };
  const Model model{.watched_seconds = 1000, .lifetime = lifetime};
  expect_calibrated(model, 0.5, 0.001 * std::log(0.7 / 0.2), longer, 0.03, "mixed");
  expect_calibrated(model, 0.9, 100 * std::log(3), longer, 0.03, "mixed");
}

// What the rate changes forget is as good as what is alive: no quantile moves, and each sample
// counts at its own rate.
TEST(SurvivalCurve, RateChangesDoNotBias) {
  const auto lifetime = [](std::mt19937_64& random) { return exponential(random, 60); };
  const auto longer = [](double seconds) { return std::exp(-seconds / 60); };
  const double p50 = 60 * std::log(2);
  Model model{.watched_seconds = 600, .session_seconds = 60, .blocks = 1000, .lifetime = lifetime};
  expect_calibrated(model, 0.5, p50, longer, 0.02, "each 60 s");
  model.words = [](double born) { return static_cast<int>(born / 60) % 2 == 0 ? 100.0 : 400.0; };
  expect_calibrated(model, 0.5, p50, longer, 0.02, "to a fourth and back");
}

// Limits are no wider than the buckets and the chance explain.
TEST(SurvivalCurve, ManyBlocksMakeNarrowLimits) {
  Watch watch;
  std::mt19937_64 random(3);
  for (int i = 0; i < 100'000; ++i) watch.died(exponential(random, 60));
  const auto p50 = SurvivalCurve(watch.counters).quantile(0.5);
  EXPECT_LE(*p50.upper_ns / p50.lower_ns, 1.42) << "one bucket";
  EXPECT_NEAR(*p50.ns / kSecond, 60 * std::log(2), 1);
}

}  // namespace
}  // namespace memprofd
