// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/history_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <vector>

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
      ASSERT_EQ(counts.ages.size(), cell->ages.size()) << "told whatever deaths are";
      for (std::size_t i = 0; i < cell->ages.size(); ++i) {
        EXPECT_EQ(counts.ages[i].n, cell->ages[i].n);
      }
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

// All fields of a cell.
std::vector<std::uint64_t> numbers(const WindowCell& cell) {
  std::vector<std::uint64_t> result{
      cell.alloc_class.value(), cell.allocated, cell.promoted, cell.never_followed,
      cell.forgotten,           cell.died[0],   cell.died[1]};
  for (const auto& entries : {cell.deaths, cell.ages}) {
    result.push_back(entries.size());
    for (const DeathCounts::Entry& entry : entries) {
      result.insert(result.end(), {entry.code, entry.n});
    }
  }
  return result;
}

// Three thousand classes, every third of which is missing.
std::shared_ptr<HistoryWindow> long_window(std::mt19937& random, std::uint64_t begin_ns,
                                           std::uint64_t end_ns) {
  auto window = std::make_shared<HistoryWindow>(begin_ns, end_ns, HistoryPoint{});
  for (const double rate : {0.5, 0.25}) {
    Interval interval;
    for (std::uint32_t id = 0; id < 3000; ++id) {
      if (id % 3 == 0) continue;
      IntervalCell& cell = interval.cell(ClassId(id));
      cell.allocated = random() % 1000;
      if (random() % 5 == 0) {
        cell.forgotten = 5;
        cell.ages.add(Heap::kMinor, 1u << random() % 31, 5, 1);
      }
      for (std::uint32_t d = random() % 20; d > 0; --d) {
        cell.deaths.add(d % 3 == 0 ? Heap::kMajor : Heap::kMinor, 1u << random() % 31,
                        1 + random() % 50, 1);
      }
    }
    window->add_part(interval, rate);
  }
  window->finish();
  return window;
}
constexpr std::uint64_t kMinuteNs = 60'000'000'000;

TEST(HistoryMerge, AFewClassesAreReadAsAllAre) {
  std::mt19937 random(5);
  const auto window = long_window(random, kMinuteNs, 11 * kMinuteNs);
  ASSERT_EQ(window->parts(), 2u);
  for (std::size_t part = 0; part < 2; ++part) {
    std::vector<std::vector<std::uint64_t>> cells;
    WindowPartReader all = window->read(part, kAllDeaths);
    while (const WindowCell* cell = all.next()) cells.push_back(numbers(*cell));
    for (const std::uint32_t most : {1u, 3u, 40u, 900u, 5000u}) {
      WindowPartReader few = window->read(part, kAllDeaths);
      auto expected = cells.begin();
      for (std::uint32_t id = random() % most; expected != cells.end(); id += 1 + random() % most) {
        while (expected != cells.end() && expected->front() < id) ++expected;
        const WindowCell* cell = few.next_from(ClassId(id));
        ASSERT_EQ(cell == nullptr, expected == cells.end());
        if (cell == nullptr) break;
        ASSERT_EQ(numbers(*cell), *expected) << "from " << id << " on";
        ++expected;
        id = std::max(id, cell->alloc_class.value());
      }
      EXPECT_EQ(expected, cells.end());
    }
    WindowPartReader half = window->read(part, kAllDeaths);
    for (std::size_t i = 0; i < cells.size() / 2; ++i) half.next();
    const std::vector<std::uint64_t>& next = cells[cells.size() / 2];
    const WindowCell* cell = half.next_from(ClassId(static_cast<std::uint32_t>(next.front())));
    ASSERT_NE(cell, nullptr);
    EXPECT_EQ(numbers(*cell), next) << "after half of them one by one";
  }
}

TEST(HistoryMerge, ASumOfAFewClassesIsPartOfThatOfAll) {
  std::mt19937 random(6);
  std::vector<HistoryWindowPtr> windows;
  for (std::uint64_t i = 0; i < 4; ++i) {
    windows.push_back(long_window(random, i * 10 * kMinuteNs, (i + 1) * 10 * kMinuteNs));
    windows.push_back(random_window(random, 2400 + i, true));
  }
  const std::vector<ClassId> only{ClassId(2), ClassId(3), ClassId(500), ClassId(2999),
                                  ClassId(5000)};
  std::vector<std::pair<double, std::vector<std::uint64_t>>> expected, few;
  sum_windows(windows, [&](const WindowCell& cell, double rate) {
    if (std::find(only.begin(), only.end(), cell.alloc_class) == only.end()) return;
    expected.emplace_back(rate, numbers(cell));
  });
  ASSERT_GE(expected.size(), 6u) << "3 at each rate";
  const auto add = [&](const WindowCell& cell, double rate) {
    few.emplace_back(rate, numbers(cell));
  };
  sum_windows(windows, add, kAllDeaths, only);
  EXPECT_EQ(few, expected);
}

TEST(HistoryMerge, MarksAreInWideWindowsAndCountAsMemory) {
  std::mt19937 random(7), again(7);
  const auto wide = long_window(random, 0, 10 * kMinuteNs);
  const auto narrow = long_window(again, 0, 10 * kMinuteNs - 1);
  EXPECT_GT(wide->memory_bytes(), narrow->memory_bytes() * 102 / 100);
  EXPECT_LT(wide->memory_bytes(), narrow->memory_bytes() * 108 / 100);
}

TEST(HistoryMerge, CountsMayTakeMoreThan32Bits) {
  constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();
  Interval interval;
  IntervalCell& cell = interval.cell(ClassId(1'000'000));
  cell.allocated = cell.promoted = cell.never_followed = cell.forgotten = 3ull * kMax;
  cell.ages.add(Heap::kMinor, 7, 3ull * kMax, 1);
  cell.deaths.add(Heap::kMinor, 5, kMax, 1);
  cell.deaths.add(Heap::kMinor, 1u << 30, kMax, 1);
  interval.cell(ClassId(0)).deaths.add(Heap::kMajor, 5, 2, 1);
  HistoryWindow window(0, 1, {});
  window.add_part(interval, 1);
  window.finish();
  WindowPartReader reader = window.read(0, kAllDeaths);
  EXPECT_EQ(reader.next()->died, (std::array<std::uint64_t, kHeaps>{0, 2}));
  const WindowCell* last = reader.next();
  EXPECT_EQ(last->alloc_class, ClassId(1'000'000));
  EXPECT_EQ(last->allocated, 3ull * kMax);
  EXPECT_EQ(last->promoted, 3ull * kMax);
  EXPECT_EQ(last->never_followed, 3ull * kMax);
  EXPECT_EQ(last->forgotten, 3ull * kMax);
  EXPECT_EQ(last->died, (std::array<std::uint64_t, kHeaps>{2ull * kMax, 0}));
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
