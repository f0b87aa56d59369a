// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/memory_growth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace memprofd {
namespace {

constexpr double kMiB = 1 << 20;
constexpr std::uint64_t kBegin = 1'700'000'000'000'000'000, kStep = 5'000'000'000;

template <typename Bytes>
MemoryGrowth judged(std::size_t floors, Bytes bytes) {
  std::vector<MemoryFloor> all;
  for (std::size_t i = 0; i < floors; ++i) all.push_back({kBegin + i * kStep, bytes(i) * kMiB});
  return judge_floors(MemoryArea::kHeap, all);
}

TEST(MemoryGrowth, ALineGrowsAndSaysHowFastAndSinceWhen) {
  const MemoryGrowth growth = judged(20, [](std::size_t i) { return 30.0 + i; });
  EXPECT_TRUE(growth.grows);
  EXPECT_DOUBLE_EQ(growth.begin_bytes, 30 * kMiB);
  EXPECT_DOUBLE_EQ(growth.end_bytes, 49 * kMiB);
  EXPECT_NEAR(growth.bytes_per_second, kMiB / 5, 1);
  EXPECT_EQ(growth.since_ns, kBegin);
  EXPECT_GT(growth.confidence, 0.999);
}

TEST(MemoryGrowth, ALeakThatBeginsLaterIsKnownByItsBegin) {
  const MemoryGrowth growth =
      judged(20, [](std::size_t i) { return 30.0 + (i < 8 ? 0.0 : 2.0 * (i - 7.0)); });
  EXPECT_TRUE(growth.grows);
  EXPECT_EQ(growth.since_ns, kBegin + 7 * kStep);
}

TEST(MemoryGrowth, ABufferThatDoublesGrows) {
  const MemoryGrowth growth = judged(20, [](std::size_t i) {
    return 10 + (i < 4 ? 1.0 : i < 9 ? 2.0 : i < 15 ? 4.0 : 8.0);
  });
  EXPECT_TRUE(growth.grows);
}

TEST(MemoryGrowth, HealthyCoursesDoNot) {
  EXPECT_FALSE(judged(20, [](std::size_t) { return 30.0; }).grows) << "flat";
  EXPECT_FALSE(judged(20, [](std::size_t i) { return 30 + (i < 12 ? 0.0 : 10.0); }).grows)
      << "one table was loaded";
  EXPECT_FALSE(judged(20, [](std::size_t i) { return 30 + 10 * (1 - std::exp(-0.5 * i)); }).grows)
      << "a cache that is full";
  EXPECT_FALSE(judged(20, [](std::size_t i) { return 30 + 3 * std::sin(i); }).grows);
  EXPECT_FALSE(judged(20, [](std::size_t i) { return 300 + 0.02 * i; }).grows) << "too little";
  EXPECT_FALSE(
      judged(20, [](std::size_t i) { return 12 + std::min(i, std::size_t{1}) * (1 + 0.01 * i); })
          .grows)
      << "the first moment of a program";
  EXPECT_FALSE(judged(9, [](std::size_t i) { return 30.0 + i; }).grows) << "too few";
  EXPECT_TRUE(judged(10, [](std::size_t i) { return 30.0 + i; }).grows);
  EXPECT_FALSE(judged(0, [](std::size_t) { return 0.0; }).grows);
}

// Floors that scatter without a direction are named once in ten thousand times at most.
TEST(MemoryGrowth, ChanceIsSeldomTakenForGrowth) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 3);
  int named = 0;
  constexpr int kPrograms = 50'000;
  for (int program = 0; program < kPrograms; ++program) {
    named += judged(20, [&](std::size_t) { return 100 + noise(random); }).grows ? 1 : 0;
  }
  EXPECT_LE(named, kPrograms / 10'000);
}

HistoryView history_of(std::size_t seconds, std::uint64_t collect_every) {
  HistoryView view;
  view.begin_ns = kBegin;
  HistoryPoint point;
  point.heap_words = 1;
  for (std::size_t i = 0; i < seconds; ++i) {
    const bool collects = i % collect_every == collect_every - 1;
    point.major_collections += collects ? 1 : 0;
    // Garbage piles up between collections.
    point.memory.heap_used = static_cast<std::uint64_t>((20 + 5.0 * (i % collect_every)) * kMiB);
    point.memory.heap_used =
        collects ? static_cast<std::uint64_t>(20 * kMiB) : point.memory.heap_used;
    point.memory.other_anonymous = static_cast<std::uint64_t>((10 + 0.5 * i) * kMiB);
    const std::uint64_t begin = kBegin + i * 1'000'000'000;
    auto window = std::make_shared<HistoryWindow>(begin, begin + 1'000'000'000, point);
    window->finish();
    view.tiers[0].push_back(std::move(window));
  }
  return view;
}

TEST(MemoryGrowth, OfTheHeapOnlyEndsOfCollectionsCount) {
  const HistoryView history = history_of(60, 4);
  const auto areas = memory_growth(history, {kBegin, kBegin + 60'000'000'000});
  ASSERT_EQ(areas.size(), 3u);
  EXPECT_EQ(areas[0].area, MemoryArea::kHeap);
  EXPECT_FALSE(areas[0].grows);
  EXPECT_DOUBLE_EQ(areas[0].end_bytes, 20 * kMiB);
  EXPECT_EQ(areas[1].area, MemoryArea::kNative);
  EXPECT_TRUE(areas[1].grows);
  EXPECT_NEAR(areas[1].bytes_per_second, 0.5 * kMiB, 0.01 * kMiB);
  EXPECT_FALSE(areas[2].grows);
}

// Every second goes up and down; the last one, at the end of the range, is high.
TEST(MemoryGrowth, TheLastMomentIsNoFloorOfItsOwn) {
  HistoryView view;
  view.begin_ns = kBegin;
  HistoryPoint point;
  for (std::size_t i = 0; i < 60; ++i) {
    point.memory.other_anonymous = static_cast<std::uint64_t>((10.0 + 4.0 * (i % 3)) * kMiB);
    const std::uint64_t begin = kBegin + i * 1'000'000'000;
    auto window = std::make_shared<HistoryWindow>(begin, begin + 1'000'000'000, point);
    window->finish();
    view.tiers[0].push_back(std::move(window));
  }
  const auto areas = memory_growth(view, {kBegin, kBegin + 60'000'000'000});
  ASSERT_EQ(areas.size(), 2u);
  EXPECT_EQ(areas[0].area, MemoryArea::kNative);
  EXPECT_EQ(areas[0].moments, 20u);
  EXPECT_DOUBLE_EQ(areas[0].end_bytes, areas[0].begin_bytes);
}

}  // namespace
}  // namespace memprofd
