// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/live_ages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <set>

#include "daemon/export/metrics/site_metrics.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

constexpr double kSampleBytes = 800;

// Callstack 1 leaks a sample a second, 2 is a cache whose blocks live for 100 s, 3 dies
// at once.
class LiveAgesTest : public ::testing::Test {
 protected:
  LiveAgesTest() { recording_.symbolizer = testing::fixed_symbolizer(); }
  void run(int seconds) {
    for (int second = 0; second < seconds; ++second) {
      recording_.alloc(++id_, 1);
      recording_.alloc(++id_, 2);
      cache_.push_back(id_);
      recording_.alloc(++id_, 3);
      recording_.die(id_);
      if (cache_.size() > 100) {
        recording_.die(cache_.front(), MEMPROF_DEALLOC_MAJOR);
        cache_.pop_front();
      }
      recording_.advance(kSecond);
    }
  }
  SiteSeries site(const std::string& function) const {
    for (const auto& [key, series] : SiteTotals(recording_.snapshot()).series()) {
      if (key.function == function) return series;
    }
    ADD_FAILURE() << "no site " << function;
    return {};
  }

  Recording recording_;
  std::uint64_t id_ = 0;
  std::deque<std::uint64_t> cache_;
};

TEST_F(LiveAgesTest, OfALeakMoreAndMoreIsOld) {
  run(1000);
  const SiteSeries leak = site("Sessions.remember");
  EXPECT_EQ(leak.live_bytes, 1000 * kSampleBytes);
  ASSERT_EQ(leak.known_ages, kLiveAges);
  EXPECT_NEAR(leak.older[0].bytes, 940 * kSampleBytes, kSampleBytes);
  // Windows are 10 s wide there.
  EXPECT_NEAR(leak.older[1].bytes, 400 * kSampleBytes, 10 * kSampleBytes);
  EXPECT_EQ(leak.older[2].bytes, 0) << "nothing is an hour old yet";
  EXPECT_NEAR(std::sqrt(leak.older[0].variance_bytes2), std::sqrt(940) * kSampleBytes,
              kSampleBytes);
}

TEST_F(LiveAgesTest, OfACacheNothingIsOlderThanItKeeps) {
  run(1000);
  const SiteSeries cache = site("Parser.token");
  EXPECT_EQ(cache.live_bytes, 100 * kSampleBytes);
  // Lifetimes are known to half an octave.
  EXPECT_NEAR(cache.older[0].bytes, 40 * kSampleBytes, 20 * kSampleBytes);
  EXPECT_LE(cache.older[1].bytes, kSampleBytes);
}

// Later blocks that are not followed, since there is no room, take nothing from the old ones.
TEST(LiveAges, WhatIsNeverFollowedWasNeverOld) {
  Recording recording({.live_samples = 1000});
  for (std::uint64_t id = 1; id <= 1000; ++id) recording.alloc(id, 1);
  for (std::uint64_t second = 0; second < 200; ++second) {
    for (std::uint64_t id = 0; id < 10; ++id) recording.alloc(10'000 + second * 10 + id, 1);
    recording.advance(kSecond);
  }
  const ProfileSnapshot snapshot = recording.snapshot();
  const LiveAges ages = live_ages(snapshot);
  EXPECT_DOUBLE_EQ(ages.older[0].front().samples, 1000);
  const RangeCounter counter(snapshot);
  const std::uint64_t middle = counter.resolve({kStart + 100 * kSecond, 0}).begin_ns;
  EXPECT_DOUBLE_EQ(counter.survivors(kStart, middle, counter.now_ns()).front().samples, 1000);
  const std::uint64_t later = counter.resolve({kStart + 50 * kSecond, 0}).begin_ns;
  EXPECT_DOUBLE_EQ(counter.survivors(later, middle, counter.now_ns()).front().samples, 0);
}

TEST_F(LiveAgesTest, WhatDiesAtOnceIsNeverOld) {
  run(200);
  for (const SiteSeries::Older& older : site("Cache.fill").older) EXPECT_EQ(older.bytes, 0);
}

TEST_F(LiveAgesTest, NothingIsOldRightAfterTheAttach) {
  run(10);
  const SiteSeries leak = site("Sessions.remember");
  EXPECT_EQ(leak.known_ages, kLiveAges);
  for (const SiteSeries::Older& older : leak.older) EXPECT_EQ(older.bytes, 0);
}

TEST_F(LiveAgesTest, WithoutHistoryNoAgeIsKnown) {
  run(100);
  ProfileSnapshot snapshot = recording_.snapshot();
  snapshot.history = {};
  EXPECT_EQ(live_ages(snapshot).known, 0);
  for (const auto& [key, series] : SiteTotals(snapshot).series()) EXPECT_EQ(series.known_ages, 0);
}

TEST_F(LiveAgesTest, AnAgeBeforeTheOldestWindowThatIsLeftIsNotKnown) {
  run(1000);
  ProfileSnapshot snapshot = recording_.snapshot();
  for (HistoryView::Tier& tier : snapshot.history.tiers) {
    std::erase_if(tier, [&](const HistoryWindowPtr& window) {
      return window->begin_ns() + 300 * kSecond < recording_.now();
    });
  }
  EXPECT_EQ(live_ages(snapshot).known, 1) << "60 s are, 600 s are not";
}

TEST_F(LiveAgesTest, AgesAddUpInTheSumOfTheOtherSites) {
  run(1000);
  const SiteSeriesMap all = SiteTotals(recording_.snapshot()).series();
  double old = 0, shown = 0;
  for (const auto& [key, series] : all) old += series.older[0].bytes;
  TopSites top(1);
  for (const auto& [key, series] : top.update(all)) shown += series.older[0].bytes;
  EXPECT_GT(old, 0);
  EXPECT_DOUBLE_EQ(shown, old);
}

TEST_F(LiveAgesTest, SeriesBearTheAgeInSeconds) {
  run(1000);
  MetricFamilies out;
  add_site_metrics(SiteTotals(recording_.snapshot()).series(), true, out);
  std::set<std::string> ages;
  for (const prometheus::MetricFamily& family : out.take()) {
    if (family.name != "memprofd_site_live_older_bytes") continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      EXPECT_EQ(metric.label.back().name, "older_than");
      ages.insert(metric.label.back().value);
    }
  }
  EXPECT_EQ(ages, (std::set<std::string>{"60", "600", "3600"}));
}

}  // namespace
}  // namespace memprofd
