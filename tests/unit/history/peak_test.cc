// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "daemon/query/range.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

TEST(Peak, ThePeakIsKept) {
  Recording recording;
  recording.alloc(1, 5, 10);
  recording.advance(kSecond);
  recording.alloc(2, 6, 20);
  recording.advance(kSecond);
  const std::uint64_t peak = recording.now();
  recording.die(2);
  recording.advance(kSecond);
  recording.alloc(3, 5, 1);
  recording.advance(kSecond);
  const RangeRows rows = rows_in_range(recording.snapshot(), {.until_peak = true}, {});
  EXPECT_EQ(rows.range.end_ns, peak);
  ASSERT_EQ(rows.rows.size(), 2u);
  EXPECT_EQ(rows.rows[0].counters.live.samples, 10u);
  EXPECT_EQ(rows.rows[1].counters.live.samples, 20u);
  EXPECT_EQ(sum(rows).allocated.samples, 30u);
}

// By then the windows of the peak's second have been merged into wider ones.
TEST(Peak, ThePeakHasAllItsCountsHoursLater) {
  Recording recording;
  recording.alloc(1, 5, 10);
  recording.alloc(2, 5, 3);
  recording.die(2);
  for (int second = 0; second < 97; ++second) recording.advance(kSecond);
  recording.alloc(3, 6, 20);
  recording.promote(1);
  recording.advance(kSecond);
  const std::uint64_t peak = recording.now();
  const RangeRows then = rows_in_range(recording.snapshot(), {.until_peak = true}, {});
  recording.die(3);
  for (int second = 0; second < 3 * 3600; ++second) {
    recording.alloc(1000, 5, 7);
    recording.die(1000);
    recording.advance(kSecond);
  }
  const RangeRows later = rows_in_range(recording.snapshot(), {.until_peak = true}, {});
  EXPECT_EQ(later.range, (TimeRange{kStart, peak, true}));
  ASSERT_EQ(later.rows.size(), then.rows.size());
  for (std::size_t i = 0; i < then.rows.size(); ++i) {
    const Counters &before = then.rows[i].counters, &after = later.rows[i].counters;
    EXPECT_EQ(after.allocated.samples, before.allocated.samples);
    EXPECT_EQ(after.promoted.samples, before.promoted.samples);
    EXPECT_EQ(after.live.samples, before.live.samples);
    EXPECT_EQ(after.deallocated[0].samples, before.deallocated[0].samples);
    EXPECT_EQ(after.deaths.histogram().total(), before.deaths.histogram().total());
    EXPECT_DOUBLE_EQ(after.allocated_objects, before.allocated_objects);
  }
  EXPECT_EQ(sum(later).allocated.samples, 33u);
  EXPECT_EQ(sum(later).promoted.samples, 10u);
  // Lifetimes are counted between limits of windows, which the answer reports.
  const RangeRows old =
      rows_in_range(recording.snapshot(), {.until_peak = true}, {.min_seconds = 50});
  EXPECT_EQ(old.range.begin_ns, kStart);
  EXPECT_NE(old.range.end_ns, peak);
  EXPECT_LT(old.range.end_ns, peak + 60 * kSecond);
  EXPECT_EQ(sum(old).live.samples, 10u);
  EXPECT_EQ(
      sum(rows_in_range(recording.snapshot(), {kStart, old.range.end_ns}, {.min_seconds = 50}))
          .live.samples,
      10u);
}

// A hundred live samples on average, all replaced every second.
TEST(Peak, ThePeakIsNotTheHighestOfManyNoisyNumbers) {
  constexpr int kRuns = 20, kSeconds = 600, kMean = 100;
  std::mt19937_64 random(3);
  std::poisson_distribution<std::uint32_t> samples(kMean);
  double peaks = 0;
  for (int run = 0; run < kRuns; ++run) {
    Recording recording;
    for (std::uint64_t second = 0; second < kSeconds; ++second) {
      if (second > 0) recording.die(second);
      recording.alloc(second + 1, 5, samples(random));
      recording.advance(kSecond);
    }
    peaks += static_cast<double>(recording.history().view().peak->live.samples);
  }
  EXPECT_NEAR(peaks / kRuns, kMean, 15);
}

TEST(Peak, GrowthWithoutDeathsIsAlwaysANewPeak) {
  Recording recording;
  for (std::uint64_t id = 1; id <= 50; ++id) {
    recording.alloc(id, 5);
    recording.advance(kSecond);
    EXPECT_EQ(recording.history().view().peak->live.samples, id);
  }
}

TEST(Peak, ARateChangeMakesNoPeakByItsNoise) {
  Recording recording;
  recording.alloc(1, 5, 10'000);  // at 0.01: 1,000,000 words
  recording.advance(kSecond);
  const std::uint64_t peak = recording.now();
  recording.set_rate(0.0001);
  recording.alloc(2, 5, 108);  // 1,080,000 words, give or take 104,000
  recording.advance(kSecond);
  EXPECT_EQ(recording.history().view().peak->time_ns, peak);
  recording.alloc(3, 5, 60);  // 1,680,000
  recording.advance(kSecond);
  EXPECT_EQ(recording.history().view().peak->time_ns, recording.now());
}

// The true peak may have been at another moment. Its lower limit is that of the estimated peak; its
// upper limit is the highest of all moments.
TEST(Peak, ItsLimitsAreOfAllMoments) {
  Recording recording;
  EXPECT_EQ(recording.history().view().peak_limits, Limits());
  recording.alloc(1, 5, 10'000);  // at 0.01: 1,000,000 words
  recording.advance(kSecond);
  const Limits of_peak = recording.history().view().peak_limits;
  EXPECT_NEAR(of_peak.lower, 8 * 980'500, 8'000);
  EXPECT_NEAR(of_peak.upper, 8 * 1'019'800, 8'000);
  recording.set_rate(0.0001);
  recording.alloc(2, 5, 108);  // 1,080,000 words: 891,000 to 1,299,000
  recording.advance(kSecond);
  EXPECT_EQ(recording.history().view().peak_limits.lower, of_peak.lower);
  EXPECT_NEAR(recording.history().view().peak_limits.upper, 8 * 1'299'000, 40'000);
  recording.set_rate(0.01);
  recording.alloc(3, 5, 100);
  recording.advance(kSecond);
  EXPECT_NEAR(recording.history().view().peak_limits.upper, 8 * 1'299'000, 40'000);
}

}  // namespace
}  // namespace memprofd
