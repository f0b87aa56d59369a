// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/series.h"

#include <gtest/gtest.h>

#include "tests/kit/fake_service.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

constexpr double kSampleBytes = 800;  // at Recording's rate of 0.01

class SeriesTest : public ::testing::Test {
 protected:
  SeriesTest() { recording_.symbolizer = testing::fixed_symbolizer(); }

  SeriesAnswer series(const SeriesQuery& query, const TimeRange& range = {},
                      const Filter& filter = {}) const {
    auto answer = history_series(recording_.snapshot(), range, filter, query);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return *answer;
  }
  Recording recording_;
};

TEST_F(SeriesTest, LiveIsALevel) {
  recording_.alloc(1, 1, 5);
  recording_.advance(kSecond);
  recording_.alloc(2, 1, 2);
  recording_.alloc(3, 2, 1);
  recording_.advance(kSecond);
  recording_.die(1);
  recording_.advance(kSecond);
  const SeriesAnswer answer = series({.measure = Measure::kLive});
  ASSERT_EQ(answer.series.size(), 2u);
  EXPECT_EQ(answer.series[0].name.location.function, "Sessions.remember");
  const std::vector<double> sessions(answer.series[0].values.begin(),
                                     answer.series[0].values.begin() + 3);
  EXPECT_EQ(sessions, (std::vector<double>{5 * kSampleBytes, 7 * kSampleBytes, 2 * kSampleBytes}));
  EXPECT_DOUBLE_EQ(answer.series[0].stderrs[0], std::sqrt(5 * 0.99) * kSampleBytes);
  EXPECT_EQ(answer.series[1].values[0], 0);
  EXPECT_EQ(answer.series[1].values[2], kSampleBytes);
}

TEST_F(SeriesTest, ALevelBeginsWithWhatWasThere) {
  recording_.alloc(1, 1, 5);
  recording_.advance(kSecond);
  const std::uint64_t begin = recording_.now();
  recording_.alloc(2, 1, 1);
  recording_.advance(kSecond);
  const SeriesAnswer answer = series({.measure = Measure::kLive}, {begin, 0});
  ASSERT_EQ(answer.points.size(), 1u);
  EXPECT_DOUBLE_EQ(answer.series[0].values[0], 6 * kSampleBytes);
}

TEST_F(SeriesTest, FlowsArePerSecondOfTheirStep) {
  for (int i = 0; i < 20; ++i) {
    recording_.alloc(static_cast<std::uint64_t>(i) + 1, 1, 4);
    recording_.advance(kSecond);
  }
  const SeriesAnswer answer = series({.measure = Measure::kAllocated, .points = 5});
  EXPECT_LE(answer.points.size(), 5u);
  double bytes = 0, seconds = 0;
  for (std::size_t i = 0; i < answer.points.size(); ++i) {
    bytes += answer.series[0].values[i] * answer.points[i].seconds;
    seconds += answer.points[i].seconds;
  }
  EXPECT_NEAR(bytes, 80 * kSampleBytes, 1);
  EXPECT_NEAR(seconds, 20, 1e-6);
}

TEST_F(SeriesTest, WhatIsNotAmongTheLargestIsSummedUp) {
  recording_.alloc(1, 1, 50);
  recording_.alloc(2, 2, 10);
  recording_.alloc(3, 3, 20);
  recording_.advance(kSecond);
  const SeriesAnswer answer = series({.measure = Measure::kLive, .limit = 1});
  ASSERT_EQ(answer.series.size(), 1u);
  EXPECT_EQ(answer.series[0].name.location.function, "Sessions.remember");
  EXPECT_DOUBLE_EQ(answer.other.values[0], 30 * kSampleBytes);
  EXPECT_DOUBLE_EQ(answer.other.stderrs[0], std::sqrt(30 * 0.99) * kSampleBytes);
}

TEST_F(SeriesTest, FiltersAndGroups) {
  recording_.alloc(1, 1, 50);
  recording_.alloc(2, 2, 10);
  recording_.advance(kSecond);
  EXPECT_EQ(series({}, {}, {.patterns = {"Parser"}}).series.size(), 1u);
  const SeriesAnswer files = series({.group_by = GroupBy::kFile});
  ASSERT_EQ(files.series.size(), 2u);
  EXPECT_EQ(files.series[0].name.location.file, "bin/sessions.ml");
}

TEST_F(SeriesTest, WhatHasNoHistoryIsRefused) {
  EXPECT_EQ(history_series(recording_.snapshot(), {}, {}, {.measure = Measure::kLifetime})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(history_series(recording_.snapshot(), {}, {.lifetime = {.min_seconds = 1}}, {})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace memprofd
