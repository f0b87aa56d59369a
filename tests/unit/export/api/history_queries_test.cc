// SPDX-License-Identifier: Apache-2.0
// Profiles and history of QueryService; query_service_test.cc has the other calls.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "daemon/export/api/query_service.h"
#include "daemon/util/clock.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;
using testing::FakeService;
using testing::fixed_target;

constexpr std::int64_t kNow = 1'700'000'600'000'000'000;

class ProfileQueriesTest : public ::testing::Test {
 protected:
  FakeService service_{{fixed_target(), fixed_target(4300)}};
  QueryService queries_{service_};
};

TEST_F(ProfileQueriesTest, ListsTargetsThatEndedToo) {
  auto ended = fixed_target(4300);
  ended->info.state = TargetState::kExited;
  service_.set({fixed_target(), ended});
  const pb::ListTargetsResponse response = queries_.list_targets();
  ASSERT_EQ(response.targets_size(), 2);
  EXPECT_EQ(response.targets(0).pid(), 4242);
  EXPECT_EQ(response.targets(1).state(), pb::TARGET_STATE_EXITED);
}

TEST_F(ProfileQueriesTest, MemoryOfCustomBlocksIsReportedSeparately) {
  auto target = fixed_target();
  target->rows[2].alloc_class.source = Source::kCustom;  // Cache.fill
  service_.set({target});
  const pb::Target told = queries_.list_targets().targets(0);
  EXPECT_DOUBLE_EQ(told.live_external().bytes(), 800 * testing::kSampleBytes);
  EXPECT_NEAR(told.live_external().bytes_lower(), 746 * testing::kSampleBytes, 8'000);
  EXPECT_EQ(told.live().bytes(), 10'403 * testing::kSampleBytes) << "of which it is a part";
}

TEST_F(ProfileQueriesTest, RunningTargetsReportTheAgeOfTheirNumbers) {
  auto now = fixed_target(), stale = fixed_target(4300), ended = fixed_target(4301);
  now->time_ns = realtime_ns();
  stale->time_ns = realtime_ns() - 90'000'000'000;
  ended->info.state = TargetState::kExited;
  service_.set({now, stale, ended});
  const pb::ListTargetsResponse response = queries_.list_targets();
  EXPECT_TRUE(response.targets(0).has_snapshot_age_seconds());
  EXPECT_GE(response.targets(0).snapshot_age_seconds(), 0);
  EXPECT_GE(response.targets(1).snapshot_age_seconds(), 90);
  EXPECT_LT(response.targets(1).snapshot_age_seconds(), 1e6) << "seconds";
  EXPECT_FALSE(response.targets(2).has_snapshot_age_seconds());
}

TEST_F(ProfileQueriesTest, ProfileOfOneSeveralAndAll) {
  pb::GetProfileRequest asked;
  asked.set_format(pb::PROFILE_FORMAT_COLLAPSED);
  asked.set_measure(pb::MEASURE_ALLOCATED);
  asked.add_pids(4242);
  asked.mutable_filter()->set_pattern("Cache");
  const auto one = queries_.get_profile(asked);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->data(), "Server.loop;Request.handle;Cache.fill 112000000\n");
  EXPECT_EQ(one->file_name(), "server_exe-4242.collapsed");
  asked.clear_pids();
  EXPECT_EQ(queries_.get_profile(asked)->file_name(), "memprofd.collapsed");
  asked.set_format(pb::PROFILE_FORMAT_UNSPECIFIED);
  EXPECT_EQ(queries_.get_profile(asked)->file_name(), "memprofd.pb.gz");
  asked.add_pids(4242);
  asked.add_pids(1);
  EXPECT_EQ(queries_.get_profile(asked).status().code(), absl::StatusCode::kNotFound);
  service_.set({});
  asked.clear_pids();
  EXPECT_TRUE(queries_.get_profile(asked).ok()) << "no targets, an empty profile";
}

TEST_F(ProfileQueriesTest, ProfileOfAllLeavesOutWhatEndedBefore) {
  auto ended = fixed_target();
  ended->info.state = TargetState::kExited;
  auto running = fixed_target(4300);
  running->time_ns += 60'000'000'000;
  service_.set({ended, running});
  pb::GetProfileRequest asked;
  asked.mutable_range()->set_begin_unix_ns(kNow + 1);
  asked.set_format(pb::PROFILE_FORMAT_COLLAPSED);
  const auto all = queries_.get_profile(asked);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->file_name(), "server_exe-4300.collapsed");
  asked.add_pids(4242);
  EXPECT_EQ(queries_.get_profile(asked).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ProfileQueriesTest, ProfileRefusesWhatMakesNoSense) {
  const auto code = [&](const pb::GetProfileRequest& asked) {
    return queries_.get_profile(asked).status().code();
  };
  pb::GetProfileRequest asked;
  asked.set_format(static_cast<pb::ProfileFormat>(99));
  EXPECT_EQ(code(asked), absl::StatusCode::kInvalidArgument);
  asked = {};
  asked.set_measure(static_cast<pb::Measure>(99));
  EXPECT_EQ(code(asked), absl::StatusCode::kInvalidArgument);
  asked = {};
  asked.mutable_filter()->add_require("(");
  EXPECT_EQ(code(asked), absl::StatusCode::kInvalidArgument);
  asked = {};
  asked.mutable_range()->set_begin_unix_ns(-1);  // relative to now
  asked.mutable_range()->set_end_unix_ns(-2);
  EXPECT_EQ(code(asked), absl::StatusCode::kInvalidArgument);
}

// A block a second for 30 s, those of callstack 2 die at once.
class HistoryQueriesTest : public ::testing::Test {
 protected:
  HistoryQueriesTest() {
    Recording recording;
    recording.symbolizer = testing::fixed_symbolizer();
    for (std::uint64_t second = 1; second <= 30; ++second) {
      recording.alloc(2 * second, 1);
      recording.alloc(2 * second + 1, 2);
      recording.die(2 * second + 1);
      recording.advance(kSecond);
    }
    auto target = std::make_shared<ProfileSnapshot>(recording.snapshot());
    target->info.pid = 77;
    service_.set({target});
    history_.mutable_selection()->set_pid(77);
    leaks_.mutable_selection()->set_pid(77);
  }

  static constexpr double kBytes = 800;  // of a sample
  FakeService service_;
  QueryService queries_{service_};
  pb::GetHistoryRequest history_;
  pb::ListLeaksRequest leaks_;
};

TEST_F(HistoryQueriesTest, SeriesHaveOneValueForEachPoint) {
  history_.set_limit(1);
  const auto answer = queries_.get_history(history_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->series_size(), 1);
  const pb::HistorySeries& series = answer->series(0);
  EXPECT_EQ(series.group().function(), "Sessions.remember");
  EXPECT_EQ(series.group().line(), 27u);
  ASSERT_EQ(series.values_size(), answer->points_size());
  ASSERT_EQ(series.stderrs_size(), answer->points_size());
  EXPECT_EQ(answer->other().values_size(), answer->points_size());
  EXPECT_DOUBLE_EQ(*series.values().rbegin(), 30 * kBytes);
  EXPECT_DOUBLE_EQ(*series.stderrs().rbegin(), std::sqrt(30 * 0.99) * kBytes);
  ASSERT_EQ(series.lowers_size(), answer->points_size());
  ASSERT_EQ(series.uppers_size(), answer->points_size());
  EXPECT_NEAR(*series.lowers().rbegin(), 20.6 * kBytes, 0.2 * kBytes) << "of 30 samples";
  EXPECT_NEAR(*series.uppers().rbegin(), 42.3 * kBytes, 0.2 * kBytes);
  EXPECT_EQ(answer->range().begin_unix_ns(), static_cast<std::int64_t>(kStart));
  EXPECT_EQ(answer->oldest_unix_ns(), static_cast<std::int64_t>(kStart));
  EXPECT_NEAR(answer->peak_live_bytes(), 30 * kBytes, 5 * kBytes);
  const double samples = answer->peak_live_bytes() / kBytes;
  EXPECT_DOUBLE_EQ(answer->peak_live_bytes_stderr(), std::sqrt(samples * 0.99) * kBytes);
  EXPECT_LT(answer->peak_live_bytes_lower(), answer->peak_live_bytes() - 8 * kBytes);
  EXPECT_GT(answer->peak_live_bytes_upper(), answer->peak_live_bytes() + 8 * kBytes);
  const pb::HistoryPoint& point = *answer->points().rbegin();
  EXPECT_NEAR(point.live_bytes_stderr(), std::sqrt(point.live_bytes() * kBytes * 0.99), 1);
  EXPECT_LT(point.live_bytes_lower(), point.live_bytes());
  EXPECT_GT(point.live_bytes_upper(), point.live_bytes());
  EXPECT_EQ(point.memory().heap_free_bytes(), 2'000'000u);
  EXPECT_EQ(point.memory().swapped_bytes(), 8192u);
  EXPECT_EQ(point.memory().resident_bytes(), 18'138'112u) << "the sum of its parts";
  EXPECT_GT(answer->peak_unix_ns(), answer->range().begin_unix_ns());
  for (int i = 1; i < answer->points_size(); ++i) {
    EXPECT_GT(answer->points(i).time_unix_ns(), answer->points(i - 1).time_unix_ns());
  }
}

// 30 s were recorded; then the system's clock is set an hour on, or ten minutes back.
TEST_F(HistoryQueriesTest, StepsOfTheClockDoNotMoveRanges) {
  const auto last_of = [&](std::uint64_t system_ns, double seconds) {
    auto target = std::make_shared<ProfileSnapshot>(*service_.snapshot(77).value());
    target->time_ns = system_ns;
    service_.set({target});
    pb::ListSitesRequest sites;
    sites.set_pid(77);
    sites.mutable_range()->set_last_seconds(seconds);
    const auto answer = queries_.list_sites(sites);
    EXPECT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->time_unix_ns(), answer->range().end_unix_ns()) << "the last counts";
    history_.mutable_selection()->mutable_range()->set_last_seconds(seconds);
    EXPECT_EQ(queries_.get_history(history_)->range().DebugString(), answer->range().DebugString());
    leaks_.mutable_selection()->mutable_range()->set_last_seconds(seconds);
    EXPECT_EQ(queries_.list_leaks(leaks_)->range().DebugString(), answer->range().DebugString());
    return answer->total().allocated().samples();
  };
  const std::uint64_t now_ns = service_.snapshot(77).value()->time_ns;
  EXPECT_EQ(last_of(now_ns, 5), 10u);
  EXPECT_EQ(last_of(now_ns + 3600 * kSecond, 5), 10u);
  EXPECT_EQ(last_of(now_ns - 600 * kSecond, 5), 10u);
}

TEST_F(HistoryQueriesTest, ADeltaBeginsWhenTheSystemsClockSaysSo) {
  auto target = std::make_shared<ProfileSnapshot>(*service_.snapshot(77).value());
  const std::uint64_t ten_before = target->time_ns - 10 * kSecond;
  target->time_ns += 3600 * kSecond;
  service_.set({target});
  pb::GetProfileRequest delta;
  delta.add_pids(77);
  delta.set_format(pb::PROFILE_FORMAT_COLLAPSED);
  delta.set_measure(pb::MEASURE_SAMPLES);
  delta.mutable_range()->set_begin_unix_ns(static_cast<std::int64_t>(ten_before));
  const std::string expected = queries_.get_profile(delta)->data();
  delta.mutable_range()->set_begin_unix_ns(static_cast<std::int64_t>(ten_before + 3600 * kSecond));
  EXPECT_EQ(queries_.get_profile(delta).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(queries_.get_profile(delta, {.labels = {}, .system_clock = true})->data(), expected);
  EXPECT_NE(expected, "");
}

TEST_F(HistoryQueriesTest, CallstacksAreNamedByTheirFrames) {
  history_.set_group_by(pb::GROUP_BY_CALLSTACK);
  const auto answer = queries_.get_history(history_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->series(0).group().callstack_size(), 1);
  EXPECT_EQ(answer->series(0).group().callstack(0).function(), "Sessions.remember");
}

TEST_F(HistoryQueriesTest, PointsAreBounded) {
  history_.set_points(5);
  EXPECT_LE(queries_.get_history(history_)->points_size(), 5);
  history_.set_points(std::numeric_limits<std::uint32_t>::max());
  EXPECT_LE(queries_.get_history(history_)->points_size(), 31);
}

TEST_F(HistoryQueriesTest, LeaksWithGrowthAndAge) {
  const auto answer = queries_.list_leaks(leaks_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->leaks_size(), 1);
  const pb::Leak& leak = answer->leaks(0);
  EXPECT_EQ(leak.site().function(), "Sessions.remember");
  EXPECT_GT(answer->range().begin_unix_ns(), static_cast<std::int64_t>(kStart)) << "warmed up";
  EXPECT_DOUBLE_EQ(leak.growth_bytes(), 23 * kBytes);
  EXPECT_DOUBLE_EQ(leak.growth_bytes_stderr(), std::sqrt(23) * kBytes);
  // 23 were born, which means 15.0 to 33.9. None was seen to die; up to 3.0 died unseen.
  EXPECT_NEAR(leak.growth_bytes_lower(), 14.4 * kBytes, 0.1 * kBytes);
  EXPECT_NEAR(leak.growth_bytes_upper(), 33.9 * kBytes, 0.1 * kBytes);
  const double seconds = answer->compared_seconds();
  EXPECT_NEAR(leak.growth_bytes_per_second(), kBytes, 1);
  EXPECT_DOUBLE_EQ(leak.growth_bytes_per_second_stderr(), leak.growth_bytes_stderr() / seconds);
  EXPECT_DOUBLE_EQ(leak.growth_bytes_per_second_lower(), leak.growth_bytes_lower() / seconds);
  EXPECT_DOUBLE_EQ(leak.growth_bytes_per_second_upper(), leak.growth_bytes_upper() / seconds);
  EXPECT_NEAR(leak.median_age_seconds(), 15, 6);
  EXPECT_GT(leak.confidence(), 0.99);
  EXPECT_GT(leak.steadiness(), 0.8);
  EXPECT_DOUBLE_EQ(leak.site().live().bytes(), 30 * kBytes);
}

TEST_F(HistoryQueriesTest, NonsenseIsRefused) {
  history_.set_measure(pb::MEASURE_LIFETIME);
  EXPECT_EQ(queries_.get_history(history_).status().code(), absl::StatusCode::kInvalidArgument);
  history_.set_measure(pb::MEASURE_LIVE);
  history_.mutable_selection()->mutable_filter()->set_fate(pb::FATE_DEAD);
  EXPECT_EQ(queries_.get_history(history_).status().code(), absl::StatusCode::kInvalidArgument);
  history_.mutable_selection()->set_pid(1);
  EXPECT_EQ(queries_.get_history(history_).status().code(), absl::StatusCode::kNotFound);
  leaks_.set_group_by(static_cast<pb::GroupBy>(99));
  EXPECT_EQ(queries_.list_leaks(leaks_).status().code(), absl::StatusCode::kInvalidArgument);
  leaks_.set_group_by(pb::GROUP_BY_SITE);
  leaks_.mutable_selection()->set_pid(1);
  EXPECT_EQ(queries_.list_leaks(leaks_).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace memprofd
