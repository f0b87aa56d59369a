// SPDX-License-Identifier: Apache-2.0
// The short form of make calibrate: too few runs for its table, enough to see an error that is a
// quarter too small or a bias of some percent.
#include "tests/calibrate/calibration.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

constexpr unsigned kRuns = 30;

Calibration calibrated(BooksOptions options, unsigned runs = kRuns) {
  Calibration result;
  for (options.seed = 1; options.seed <= runs; ++options.seed) result.run(options);
  return result;
}

void expect_true(Calibration& calibration, double least_coverage) {
  for (const std::string& name : Calibration::quantities()) {
    const Calibrated& of = calibration.of(name);
    if (of.answers() < 100) continue;  // one in each run, or not of this kind
    EXPECT_GT(of.coverage(), least_coverage) << name;
    // Known to the width of a bucket.
    if (name.ends_with("lifetimes") || name == "median age") continue;
    EXPECT_LT(std::abs(of.bias()), 4 * of.bias_stderr() + 0.005) << name;
    EXPECT_LT(of.coverage(), 0.995) << name;
  }
}

TEST(Calibration, OfOneRate) {
  Calibration calibration = calibrated({.rate = 1e-3});
  expect_true(calibration, 0.915);
  EXPECT_GT(calibration.of("allocated").answers(), 400);
}

TEST(Calibration, OfAHighRate) {
  Calibration calibration = calibrated({.rate = 0.2, .seconds = 40});
  expect_true(calibration, 0.915);
}

TEST(Calibration, OfRatesThatChange) {
  Calibration calibration = calibrated({.rate = 1e-3, .next_rates = {3e-4, 2e-3, 1e-4}});
  expect_true(calibration, 0.915);
}

TEST(Calibration, OfABudget) {
  Calibration calibration =
      calibrated({.rate = 1e-3, .rate_seconds = 10, .samples_a_second = 100}, 15);
  expect_true(calibration, 0.9);
}

TEST(Calibration, OfLosses) {
  Calibration calibration = calibrated({.rate = 1e-3, .seconds_to_loss = 20}, 15);
  expect_true(calibration, 0.9);
}

TEST(Calibration, OfMemoryOfC) {
  Calibration calibration = calibrated({.rate = 8.0 / 8192, .native_interval = 8192});
  expect_true(calibration, 0.915);
  EXPECT_GT(calibration.of("allocated").answers(), 400);
  EXPECT_EQ(calibration.of("promoted").answers(), 0);
}

TEST(Calibration, OfObserveMode) {
  Calibration calibration = calibrated({.rate = 1e-3, .observe = true}, 15);
  expect_true(calibration, 0.9);
  EXPECT_GT(calibration.of("allocated").answers(), 200);
}

}  // namespace
}  // namespace memprofd
