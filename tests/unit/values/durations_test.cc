// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/durations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/unit/values/fake_registry.h"

namespace memprofd {
namespace {

TEST(Durations, BucketsFollowOneAnother) {
  EXPECT_EQ(memprof_values_bucket(0), 0u);
  for (std::uint32_t bucket = 0; bucket + 1 < MEMPROF_VALUES_BUCKETS; ++bucket) {
    const std::uint64_t least = memprof_values_bucket_ticks(bucket);
    const std::uint64_t next = memprof_values_bucket_ticks(bucket + 1);
    EXPECT_EQ(memprof_values_bucket(least), bucket);
    EXPECT_EQ(memprof_values_bucket(next - 1), bucket);
    if (bucket >= 4) {
      EXPECT_LE(4 * (next - least), least) << "a quarter as wide at most";
    }
  }
  EXPECT_EQ(memprof_values_bucket(std::numeric_limits<std::uint64_t>::max()),
            MEMPROF_VALUES_BUCKETS - 1);
}

// Half a nanosecond per tick.
Durations durations_of(const std::vector<std::uint64_t>& ticks) {
  memprof_timer_histogram histogram{};
  for (const std::uint64_t one : ticks) {
    histogram.sum_ticks += one;
    ++histogram.counts[memprof_values_bucket(one)];
  }
  Durations durations;
  durations.add(histogram);
  durations.set_ns_per_tick(0.5);
  return durations;
}

TEST(Durations, QuantilesAreTheirBuckets) {
  std::vector<std::uint64_t> ticks(90, 20'000);
  ticks.resize(99, 2'000'000);
  ticks.push_back(2'000'000'000);
  const Durations durations = durations_of(ticks);
  EXPECT_EQ(durations.count(), 100u);
  EXPECT_DOUBLE_EQ(durations.seconds(), 90 * 1e-5 + 9 * 1e-3 + 1);
  for (const auto& [share, seconds] :
       {std::pair{0.5, 1e-5}, {0.9, 1e-5}, {0.99, 1e-3}, {1.0, 1.0}}) {
    const auto range = durations.quantile(share);
    ASSERT_TRUE(range);
    EXPECT_LE(range->low_seconds, seconds);
    EXPECT_GT(range->high_seconds, seconds);
    EXPECT_LE(range->high_seconds, 1.25 * range->low_seconds);
  }
  EXPECT_EQ(durations.buckets().size(), 3u);
  EXPECT_FALSE(Durations().quantile(0.5));
  const Durations longest = durations_of({std::numeric_limits<std::uint64_t>::max()});
  EXPECT_TRUE(std::isinf(longest.quantile(0.5)->high_seconds));
}

TEST(Durations, NoQuantileIsAboveTheLongest) {
  for (const std::uint64_t ticks : {1ul, 7ul, 1025ul, 2'000'003ul, ~0ul}) {
    Durations durations = durations_of({ticks});
    EXPECT_GT(durations.quantile(0.99)->high_seconds, durations.longest_seconds()) << ticks;
    durations.note_longest(ticks);
    EXPECT_DOUBLE_EQ(durations.longest_seconds(), static_cast<double>(ticks) * 0.5e-9);
    EXPECT_EQ(durations.quantile(0.99)->high_seconds, durations.longest_seconds());
  }
  Durations late = durations_of({1000, 5000});
  late.note_longest(1000);  // its cell was read before the other one ended
  EXPECT_LE(late.quantile(0.99)->low_seconds, late.longest_seconds());
  EXPECT_LE(late.quantile(0.99)->high_seconds, late.longest_seconds());
  EXPECT_EQ(Durations().longest_seconds(), 0);
}

// For any duration and limit: on the right side unless it is within an eighth.
TEST(Durations, LimitsAreOffByAtMostAnEighth) {
  for (double limit = 1e-6; limit < 100; limit *= 2.5) {
    for (double off = 0.5; off < 2; off += 0.01) {
      const Durations one = durations_of({static_cast<std::uint64_t>(limit * off * 2e9)});
      if (off < 0.875) {
        EXPECT_EQ(one.not_above(limit), 1u) << limit << " " << off;
      } else if (off > 1.126) {
        EXPECT_EQ(one.not_above(limit), 0u) << limit << " " << off;
      }
    }
  }
}

TEST(Durations, WhatHasComeSince) {
  const Durations before = durations_of({100, 100, 5'000});
  const Durations rest = durations_of({100, 100, 100, 5'000, 7'000}).since(before);
  EXPECT_EQ(rest.count(), 2u);
  EXPECT_DOUBLE_EQ(rest.seconds(), 7'100 * 0.5e-9);
}

class TimerHistograms : public ::testing::Test {
 protected:
  TimerHistograms() {
    for (const char* name : {"a", "b", "c", "d"}) {
      registry_.add(MEMPROF_SLOT_TIMER, name).cell = registry_.it->head.timers_used++;
    }
    registry_.it->head.histogram_bytes = sizeof(memprof_timer_histogram);
    registry_.it->head.lanes_used = 2;
    registry_.it->head.shared_used = 1;
    put(0, 1, 50);
    put(1, 1, 70'000);
    put(MEMPROF_VALUES_SHARED_LANE, 1, 50);
    put(1, 3, 60);
    put(2, 1, 50);  // not in use
  }
  void put(std::uint32_t lane, std::uint32_t timer, std::uint64_t ticks) {
    memprof_timer_cell& cell = registry_.it->lanes[lane].timers[timer];
    ++cell.starts, ++cell.stops;
    cell.max_ticks = std::max<std::uint64_t>(cell.max_ticks, ticks);
    memprof_timer_histogram& histogram = registry_.it->histograms[lane].timers[timer];
    histogram.sum_ticks += ticks;
    ++histogram.counts[memprof_values_bucket(ticks)];
  }
  FakeRegistry registry_;
};

TEST_F(TimerHistograms, AreSummedOverLanes) {
  const Publication report = registry_.report();
  ASSERT_EQ(report.all.size(), 4u);
  EXPECT_EQ(report.all[0].durations, nullptr);
  ASSERT_NE(report.all[1].durations, nullptr);
  EXPECT_EQ(report.all[1].durations->count(), 3u);
  EXPECT_DOUBLE_EQ(report.all[1].durations->seconds(), 70'100 * 0.5e-9);
  EXPECT_EQ(report.all[2].durations, nullptr);
  ASSERT_NE(report.all[3].durations, nullptr);
  EXPECT_EQ(report.all[3].durations->count(), 1u);
}

TEST_F(TimerHistograms, AnOlderLibraryHasNone) {
  registry_.it->head.histogram_bytes = 0;
  registry_.end = offsetof(memprof_values, histograms);
  const Publication report = registry_.report();
  ASSERT_EQ(report.all.size(), 4u);
  EXPECT_EQ(report.all[1].stops, 3u);
  EXPECT_EQ(report.all[1].durations, nullptr);
  registry_.it->head.histogram_bytes = 64;
  EXPECT_FALSE(read_publication(registry_, kRegistryAddress, kRegistryNow).ok());
}

// Reading unwritten histograms would touch memory that the program has never used.
TEST_F(TimerHistograms, UnwrittenHistogramsAreNotRead) {
  FakeRegistry other;
  other.add(MEMPROF_SLOT_TIMER, "a").cell = 0;
  other.it->head.timers_used = 1;
  other.it->head.histogram_bytes = sizeof(memprof_timer_histogram);
  other.end = offsetof(memprof_values, histograms);
  EXPECT_EQ(other.report().all.size(), 1u);
}

}  // namespace
}  // namespace memprofd
