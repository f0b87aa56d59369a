// SPDX-License-Identifier: Apache-2.0
// Lifetimes in ranges: of blocks that were there before, of several sessions, under filters.
#include "daemon/query/range_ages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <queue>
#include <random>

#include "daemon/aggregate/survival_curve.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

constexpr double kNs = 1e9;

// A program that allocates at a steady rate on a recording's clock.
class Program {
 public:
  using Lifetime = std::function<double(std::mt19937_64&)>;  // seconds

  Program(Recording& recording, Lifetime lifetime, int each_second)
      : recording_(recording), lifetime_(std::move(lifetime)), each_second_(each_second) {}

  void run(int seconds) {
    constexpr int kSteps = 10;
    for (int step = 0; step < seconds * kSteps; ++step) {
      while (!deaths_.empty() && deaths_.top().first <= recording_.now()) {
        recording_.die(deaths_.top().second);
        deaths_.pop();
      }
      for (int i = 0; i < each_second_ / kSteps; ++i) {
        recording_.alloc(++id_, 1);
        const double lived = lifetime_(random_);
        deaths_.emplace(recording_.now() + static_cast<std::uint64_t>(lived * kNs), id_);
      }
      recording_.advance(kSecond / kSteps);
    }
  }
  // Blocks of the previous session are no longer followed, so the target reports nothing about
  // them.
  void set_rate(double rate) {
    recording_.set_rate(rate);
    deaths_ = {};
  }

 private:
  using Death = std::pair<std::uint64_t, std::uint64_t>;  // time, block

  Recording& recording_;
  Lifetime lifetime_;
  int each_second_;
  std::uint64_t id_ = 0;
  std::mt19937_64 random_{7};
  std::priority_queue<Death, std::vector<Death>, std::greater<>> deaths_;
};

double exponential(std::mt19937_64& random, double mean) {
  return std::exponential_distribution<double>(1 / mean)(random);
}

SurvivalCurve curve_of(const ProfileSnapshot& snapshot, const TimeRange& range,
                       const LifetimeFilter& filter = {}) {
  return SurvivalCurve(sum(rows_in_range(snapshot, range, filter)));
}

TimeRange last(const Recording& recording, std::uint64_t seconds) {
  return {recording.now() - seconds * kSecond, 0};
}

double seconds(const std::optional<double>& ns) { return ns.value_or(NAN) / kNs; }

// Mean 60 s: of what dies in a minute's range half lived for less than 14 s if they were born in
// it.
TEST(RangeAges, LifetimesInARangeAreThoseOfAllBlocks) {
  Recording recording;
  Program program(
      recording, [](auto& random) { return exponential(random, 60); }, 100);
  program.run(600);
  const ProfileSnapshot snapshot = recording.snapshot();
  const double p50 = 60 * std::log(2), p90 = 60 * std::log(10);
  EXPECT_NEAR(seconds(curve_of(snapshot, {}).quantile(0.5).ns) / p50, 1, 0.05);
  for (const std::uint64_t range : {30, 60, 300}) {
    const SurvivalCurve curve = curve_of(snapshot, last(recording, range));
    EXPECT_NEAR(seconds(curve.quantile(0.5).ns) / p50, 1, 0.12) << range;
    EXPECT_NEAR(seconds(curve.quantile(0.9).ns) / p90, 1, 0.2) << range;
  }
  // The same at an earlier end, whose live set no longer exists.
  for (const std::uint64_t end : {200, 400}) {
    const std::uint64_t end_ns = kStart + end * kSecond;
    const SurvivalCurve whole = curve_of(snapshot, {0, end_ns});
    EXPECT_NEAR(seconds(whole.quantile(0.5).ns) / p50, 1, 0.08) << end;
    EXPECT_NEAR(seconds(whole.quantile(0.9).ns) / p90, 1, 0.15) << end;
    const SurvivalCurve part = curve_of(snapshot, {end_ns - 60 * kSecond, end_ns});
    EXPECT_NEAR(seconds(part.quantile(0.5).ns) / p50, 1, 0.12) << end;
    EXPECT_NEAR(seconds(part.quantile(0.9).ns) / p90, 1, 0.25) << end;
  }
}

TEST(RangeAges, RateChangesDoNotMoveThem) {
  Recording recording;
  Program program(
      recording, [](auto& random) { return exponential(random, 60); }, 200);
  for (int session = 0; session < 10; ++session) {
    program.set_rate(session % 2 == 0 ? 0.01 : 0.0025);
    program.run(60);
  }
  const ProfileSnapshot snapshot = recording.snapshot();
  const double p50 = 60 * std::log(2);
  EXPECT_NEAR(seconds(curve_of(snapshot, {}).quantile(0.5).ns) / p50, 1, 0.06);
  EXPECT_NEAR(seconds(curve_of(snapshot, last(recording, 300)).quantile(0.5).ns) / p50, 1, 0.1);
  const TimeRange past{kStart + 90 * kSecond, kStart + 400 * kSecond};
  EXPECT_NEAR(seconds(curve_of(snapshot, past).quantile(0.5).ns) / p50, 1, 0.1);
  // The dead alone would keep it at this.
  const LifetimeFilter dead{.fate = Fate::kDead};
  EXPECT_LT(seconds(curve_of(snapshot, {}, dead).quantile(0.5).ns), 20);
}

TEST(RangeAges, WhereNothingDiesNothingIsReached) {
  Recording recording;
  Program program(
      recording, [](auto&) { return 1e6; }, 10);
  program.run(120);
  const ProfileSnapshot snapshot = recording.snapshot();
  for (const TimeRange& range : {TimeRange{}, last(recording, 30)}) {
    const SurvivalCurve curve = curve_of(snapshot, range);
    EXPECT_FALSE(curve.quantile(0.5).ns);
    EXPECT_GE(curve.watched_ns(), 60 * kNs);
    EXPECT_LE(curve.watched_ns(), 120 * kNs);
    EXPECT_EQ(curve.alive_ratio(), 1);
  }
}

// Old blocks that die in the range say nothing of ages before it: a cache of an hour that is
// dropped in the last minute was never at risk to die young there.
TEST(RangeAges, WhatWasThereBeforeCountsFromItsAgeOn) {
  Recording recording;
  for (std::uint64_t id = 1; id <= 1000; ++id) recording.alloc(id, 1);
  for (int i = 0; i < 3600; ++i) recording.advance(kSecond);
  for (std::uint64_t id = 1001; id <= 1100; ++id) recording.alloc(id, 1);
  for (int i = 0; i < 10; ++i) recording.advance(kSecond);
  for (std::uint64_t id = 1001; id <= 1080; ++id) recording.die(id);
  for (int i = 0; i < 20; ++i) recording.advance(kSecond);
  const ProfileSnapshot snapshot = recording.snapshot();
  // 80 of 100 lived for 10 s; the thousand old ones were not watched at that age.
  EXPECT_NEAR(seconds(curve_of(snapshot, last(recording, 60)).quantile(0.5).ns), 10, 3);
  EXPECT_FALSE(curve_of(snapshot, {}).quantile(0.5).ns) << "80 of 1100 have died";
}

TEST(RangeAges, FiltersChooseWhoseLifetimesTheyAre) {
  Recording recording;
  // 70 % live for a moment, the others for 60 s in the mean.
  Program program(
      recording,
      [](auto& random) {
        return std::bernoulli_distribution(0.7)(random) ? 0.2 : exponential(random, 60);
      },
      200);
  program.run(300);
  const ProfileSnapshot snapshot = recording.snapshot();
  EXPECT_LT(seconds(curve_of(snapshot, {}).quantile(0.5).ns), 0.4);
  // Memoryless lifetimes: blocks that have lived for 2 s live for another 42.
  const SurvivalCurve longer = curve_of(snapshot, {}, {.min_seconds = 2});
  EXPECT_NEAR(seconds(longer.quantile(0.5).ns), 2 + 60 * std::log(2), 4);
  const SurvivalCurve fresh =
      curve_of(snapshot, last(recording, 120), {.allocated_in_range = true});
  EXPECT_NEAR(seconds(fresh.quantile(0.85).ns) / (60 * std::log(2)), 1, 0.15);
  const SurvivalCurve dead = curve_of(snapshot, {}, {.fate = Fate::kDead});
  EXPECT_EQ(dead.alive_ratio(), 0);
  EXPECT_TRUE(dead.quantile(0.99).ns);
  const SurvivalCurve alive = curve_of(snapshot, {}, {.fate = Fate::kAlive});
  EXPECT_EQ(alive.alive_ratio(), 1);
  EXPECT_FALSE(alive.quantile(0.5).ns);
}

// Windows of the oldest sessions remain in the totals.
TEST(RangeAges, WhatWasForgottenCountsWithoutTheOldestWindows) {
  Recording recording;
  Program program(
      recording, [](auto& random) { return exponential(random, 60); }, 200);
  for (int session = 0; session < 8; ++session) {
    program.set_rate(session % 2 == 0 ? 0.01 : 0.0025);
    program.run(60);
  }
  const LifetimeFilter longer{.min_seconds = 2};
  const double median = 2 + 60 * std::log(2);
  EXPECT_NEAR(seconds(curve_of(recording.snapshot(), {}, longer).quantile(0.5).ns), median, 5);
  while (recording.history().evict_oldest()) {
  }
  const ProfileSnapshot snapshot = recording.snapshot();
  ASSERT_GT(snapshot.history.oldest_ns(), kStart);
  EXPECT_NEAR(seconds(curve_of(snapshot, {}, longer).quantile(0.5).ns), median, 5);
}

TEST(RangeAges, AgesAddUpToWhatIsLive) {
  Recording recording;
  Program program(
      recording, [](auto& random) { return exponential(random, 30); }, 100);
  program.run(100);
  program.set_rate(0.02);
  program.run(100);
  const ProfileSnapshot snapshot = recording.snapshot();
  for (const std::uint64_t end : {50, 99, 150, 200}) {
    const Counters counters = sum(rows_in_range(snapshot, {0, kStart + end * kSecond}, {}));
    double words = 0;
    for (const AgeCounts::Entry& entry : counters.ages.entries()) words += entry.words;
    EXPECT_NEAR(words / counters.live.words, 1, 1e-6) << end;
  }
}

TEST(RangeAges, ThePeakHasTheAgesOfItsMoment) {
  Recording recording;
  for (std::uint64_t id = 1; id <= 100; ++id) recording.alloc(id, 1);
  for (int i = 0; i < 100; ++i) recording.advance(kSecond);
  for (std::uint64_t id = 1; id <= 100; ++id) recording.die(id);
  for (int i = 0; i < 100; ++i) recording.advance(kSecond);
  TimeRange peak;
  peak.until_peak = true;
  const SurvivalCurve curve = curve_of(recording.snapshot(), peak);
  EXPECT_EQ(curve.alive_ratio(), 1);
  EXPECT_FALSE(curve.quantile(0.5).ns);
}

TEST(LateShares, ABlockEntersAtItsAgeWhenTheRangeBegan) {
  const int left_in = LifetimeHistogram::bucket_of(static_cast<std::uint64_t>(1000 * kNs));
  EXPECT_TRUE(late_shares(left_in, 2000 * kNs, 2000 * kNs).empty()) << "born in the range";
  double entered = 0, missed = 0;
  for (const LateShare& share : late_shares(left_in, 0, 0)) {
    EXPECT_EQ(share.bucket, left_in);
    entered += share.entered;
    missed += share.missed;
  }
  EXPECT_NEAR(entered, 1, 1e-9) << "all were there";
  EXPECT_NEAR(missed, 0.5, 1e-9) << "and left at once";
  entered = 0;
  for (const LateShare& share : late_shares(left_in, 500 * kNs, 500 * kNs)) {
    EXPECT_LT(share.bucket, left_in);
    EXPECT_GE(share.missed, 0);
    EXPECT_LE(share.missed, share.entered);
    entered += share.entered;
  }
  EXPECT_NEAR(entered, 1, 1e-9);
}

}  // namespace
}  // namespace memprofd
