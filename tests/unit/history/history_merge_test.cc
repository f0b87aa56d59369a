// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/history_merge.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <tuple>

namespace memprofd {
namespace {

using Sums = std::map<std::pair<double, std::uint32_t>, std::map<std::string, std::uint64_t>>;

void add(Sums& sums, const WindowCell& cell, double rate) {
  auto& sum = sums[{rate, cell.alloc_class.value()}];
  sum["allocated"] += cell.allocated;
  sum["promoted"] += cell.promoted;
  sum["forgotten"] += cell.forgotten;
  sum["never followed"] += cell.never_followed;
  for (const DeathCounts::Entry& death : cell.deaths) sum[std::to_string(death.code)] += death.n;
  for (const AgeCounts::Entry& age : cell.ages) sum["age " + std::to_string(age.code)] += age.n;
}

HistoryWindowPtr random_window(std::mt19937& random, std::uint64_t second, bool two_rates) {
  auto window =
      std::make_shared<HistoryWindow>(second, second + 1, HistoryPoint{.heap_words = second});
  for (const double rate : {0.5, 0.25}) {
    Interval interval;
    for (int i = 0; i < 40; ++i) {
      IntervalCell& cell = interval.cell(ClassId(random() % 60));
      cell.allocated += random() % 3;
      cell.promoted += random() % 2;
      if (random() % 7 == 0) {
        cell.forgotten += 5;
        cell.ages.add(Heap::kMinor, 1u << random() % 31, 5, 1);
      }
      cell.never_followed += random() % 3 == 0 ? 1 : 0;
      for (std::uint32_t d = random() % 4; d > 0; --d) {
        cell.deaths.add(random() % 2 == 0 ? Heap::kMinor : Heap::kMajor, 1u << random() % 31, 3, 1);
      }
    }
    window->add_part(interval, rate);
    if (!two_rates) break;
  }
  window->finish();
  return window;
}

TEST(HistoryMerge, TheSumOfWindowsIsThatOfTheirCells) {
  std::mt19937 random(3);
  std::vector<HistoryWindowPtr> windows;
  for (std::uint64_t second = 0; second < 10; ++second) {
    windows.push_back(random_window(random, second, second >= 6));
  }
  Sums expected, summed, merged;
  for (const HistoryWindowPtr& window : windows) {
    window->for_each_cell([&](const WindowCell& cell, double rate) { add(expected, cell, rate); });
  }
  std::pair before{1.0, 0u};
  sum_windows(windows, [&](const WindowCell& cell, double rate) {
    EXPECT_EQ(summed.count({rate, cell.alloc_class.value()}), 0u) << "each class once";
    std::uint64_t died = 0;
    for (const DeathCounts::Entry& death : cell.deaths) died += death.n;
    EXPECT_EQ(died, cell.died[0] + cell.died[1]);
    EXPECT_TRUE(rate != before.first || before.second < cell.alloc_class.value());
    before = {rate, cell.alloc_class.value()};
    add(summed, cell, rate);
  });
  EXPECT_EQ(summed, expected);
  const auto window = merge_windows(windows, 0, 10);
  window->for_each_cell([&](const WindowCell& cell, double rate) { add(merged, cell, rate); });
  EXPECT_EQ(merged, expected);
  EXPECT_EQ(window->parts(), 2u);
  EXPECT_EQ(window->begin_ns(), 0u);
  EXPECT_EQ(window->end_ns(), 10u);
  EXPECT_EQ(window->at_end().heap_words, 9u) << "of the last";
}

TEST(HistoryMerge, CountsAreTheSameWithAndWithoutDeaths) {
  std::mt19937 random(4);
  const HistoryWindowPtr window = random_window(random, 0, true);
  for (std::size_t part = 0; part < window->parts(); ++part) {
    WindowPartReader all = window->read(part, kAllDeaths), none = window->read(part, kNoDeaths);
    WindowPartReader old = window->read(part, {false, true});
    while (const WindowCell* cell = all.next()) {
      const WindowCell &counts = *none.next(), &some = *old.next();
      EXPECT_EQ(std::tie(counts.alloc_class, counts.allocated, counts.promoted,
                         counts.never_followed, counts.forgotten, counts.died),
                std::tie(cell->alloc_class, cell->allocated, cell->promoted, cell->never_followed,
                         cell->forgotten, cell->died));
      EXPECT_TRUE(counts.deaths.empty());
      std::uint32_t died_old = 0;
      for (const DeathCounts::Entry& death : some.deaths) {
        EXPECT_EQ(death.heap(), Heap::kMajor);
        died_old += death.n;
      }
      EXPECT_EQ(died_old, cell->died[static_cast<int>(Heap::kMajor)]);
    }
    EXPECT_EQ(none.next(), nullptr);
  }
}

TEST(HistoryMerge, CountsMayTakeMoreThan32Bits) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  Interval interval;
  IntervalCell& cell = interval.cell(ClassId(1'000'000));
  cell.allocated = cell.promoted = cell.never_followed = cell.forgotten = 3ull * kMost;
  cell.ages.add(Heap::kMinor, 7, 3ull * kMost, 1);
  cell.deaths.add(Heap::kMinor, 5, kMost, 1);
  cell.deaths.add(Heap::kMinor, 1u << 30, kMost, 1);
  interval.cell(ClassId(0)).deaths.add(Heap::kMajor, 5, 2, 1);
  HistoryWindow window(0, 1, {});
  window.add_part(interval, 1);
  window.finish();
  WindowPartReader reader = window.read(0, kAllDeaths);
  EXPECT_EQ(reader.next()->died, (std::array<std::uint64_t, kHeaps>{0, 2}));
  const WindowCell* last = reader.next();
  EXPECT_EQ(last->alloc_class, ClassId(1'000'000));
  EXPECT_EQ(last->allocated, 3ull * kMost);
  EXPECT_EQ(last->promoted, 3ull * kMost);
  EXPECT_EQ(last->never_followed, 3ull * kMost);
  EXPECT_EQ(last->forgotten, 3ull * kMost);
  EXPECT_EQ(last->died, (std::array<std::uint64_t, kHeaps>{2ull * kMost, 0}));
  EXPECT_EQ(last->deaths.size(), 2u);
  EXPECT_EQ(reader.next(), nullptr);
}

// A day of hours, each of which fits 32 bits.
TEST(HistoryMerge, SumsMayTakeMoreThan32Bits) {
  constexpr std::uint64_t kHours = 29, kEach = 300'000'000;
  std::vector<HistoryWindowPtr> windows;
  for (std::uint64_t hour = 0; hour < kHours; ++hour) {
    Interval interval;
    IntervalCell& cell = interval.cell(ClassId(1));
    cell.allocated = cell.promoted = kEach;
    cell.deaths.add(Heap::kMajor, 5, kEach, 1);
    auto window = std::make_shared<HistoryWindow>(hour, hour + 1, HistoryPoint{});
    window->add_part(interval, 1);
    window->finish();
    windows.push_back(std::move(window));
  }
  const auto check = [&](const WindowCell& cell) {
    EXPECT_EQ(cell.allocated, kHours * kEach);
    EXPECT_EQ(cell.promoted, kHours * kEach);
    EXPECT_EQ(cell.died[1], kHours * kEach);
    ASSERT_EQ(cell.deaths.size(), 1u);
    EXPECT_EQ(cell.deaths[0].n, kHours * kEach);
  };
  sum_windows(windows, [&](const WindowCell& cell, double) { check(cell); });
  const auto merged = merge_windows(windows, 0, kHours);
  merged->for_each_cell([&](const WindowCell& cell, double) { check(cell); });
}

}  // namespace
}  // namespace memprofd
