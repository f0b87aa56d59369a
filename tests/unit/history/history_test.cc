// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/history.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "daemon/query/range.h"
#include "daemon/query/range_counter.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

TEST(HistoryWindowTest, CellsComeBackAsTheyWere) {
  Interval interval;
  std::mt19937 random(1);
  std::map<std::uint32_t, IntervalCell> expected;
  for (int i = 0; i < 2000; ++i) {
    IntervalCell& cell = interval.cell(ClassId(random() % 100'000));
    cell.allocated += random() % 4 == 0 ? random() : random() % 4;
    cell.promoted += random() % 3;
    if (random() % 5 == 0) {
      cell.forgotten += 1000;
      cell.ages.add(Heap::kMinor, 1u << random() % 31, 400, 1);
      cell.ages.add(Heap::kMinor, 1u << random() % 31, 600, 1);
    }
    cell.never_followed += random() % 4 == 0 ? 1 + random() % 300 : 0;
    for (std::uint32_t d = random() % 30; d > 0; --d) {
      cell.deaths.add(random() % 2 == 0 ? Heap::kMinor : Heap::kMajor, 1u << random() % 31,
                      1 + random() % 300, 1);
    }
  }
  for (const IntervalCell& cell : interval.cells()) expected[cell.alloc_class.value()] = cell;
  HistoryWindow window(1, 2, {});
  window.add_part(interval, 0.5);
  window.finish();
  auto next = expected.begin();
  window.for_each_cell([&](const WindowCell& cell, double rate) {
    ASSERT_NE(next, expected.end());
    EXPECT_EQ(rate, 0.5);
    EXPECT_EQ(cell.alloc_class.value(), next->first);
    EXPECT_EQ(cell.allocated, next->second.allocated);
    EXPECT_EQ(cell.promoted, next->second.promoted);
    EXPECT_EQ(cell.forgotten, next->second.forgotten);
    EXPECT_EQ(cell.never_followed, next->second.never_followed);
    ASSERT_EQ(cell.deaths.size(), next->second.deaths.entries().size());
    for (std::size_t i = 0; i < cell.deaths.size(); ++i) {
      EXPECT_EQ(cell.deaths[i].code, next->second.deaths.entries()[i].code);
      EXPECT_EQ(cell.deaths[i].n, next->second.deaths.entries()[i].n);
    }
    ASSERT_EQ(cell.ages.size(), next->second.ages.entries().size());
    for (std::size_t i = 0; i < cell.ages.size(); ++i) {
      EXPECT_EQ(cell.ages[i].code, next->second.ages.entries()[i].code);
      EXPECT_EQ(cell.ages[i].n, next->second.ages.entries()[i].n);
    }
    ++next;
  });
  EXPECT_EQ(next, expected.end());
}

TEST(HistoryTest, AWholeLifeNeedsNoWindows) {
  Recording recording;
  recording.alloc(1, 5, 2);
  const auto all = sum(rows_in_range(recording.snapshot(), {}, {}));
  EXPECT_EQ(all.allocated.samples, 2u);
  EXPECT_EQ(all.live.samples, 2u);
}

TEST(HistoryTest, CountsOfASecond) {
  Recording recording;
  recording.alloc(1, 5);
  recording.advance(kSecond);
  const std::uint64_t begin = recording.now();
  recording.alloc(2, 5, 3);
  recording.promote(1);
  recording.advance(kSecond);
  const std::uint64_t end = recording.now();
  recording.die(1, MEMPROF_DEALLOC_MAJOR);
  recording.alloc(3, 5, 7);
  recording.advance(kSecond / 10);
  const RangeRows rows = rows_in_range(recording.snapshot(), {begin, end}, {});
  EXPECT_EQ(rows.range, (TimeRange{begin, end}));
  const Counters counters = sum(rows);
  EXPECT_EQ(counters.allocated.samples, 3u);
  EXPECT_DOUBLE_EQ(counters.allocated.words, 300);
  EXPECT_DOUBLE_EQ(counters.allocated_objects, 75);
  EXPECT_EQ(counters.promoted.samples, 1u);
  EXPECT_EQ(counters.live.samples, 4u);
  EXPECT_DOUBLE_EQ(counters.live_objects, 100);
  EXPECT_EQ(counters.deallocated[1].samples, 0u);
  const Counters last = sum(rows_in_range(recording.snapshot(), {end, 0}, {}));
  EXPECT_EQ(last.allocated.samples, 7u) << "the unfinished window counts";
  EXPECT_EQ(last.deallocated[1].samples, 1u);
  EXPECT_EQ(last.live.samples, 10u);
}

TEST(HistoryTest, RangesMoveToTheNearestWindowLimit) {
  Recording recording;
  for (int i = 0; i < 5; ++i) {
    recording.alloc(static_cast<std::uint64_t>(i) + 1, 5);
    recording.advance(kSecond);
  }
  const std::uint64_t begin = kStart + kSecond, end = kStart + 3 * kSecond;
  const RangeRows rows =
      rows_in_range(recording.snapshot(), {begin + kSecond / 4, end - kSecond / 4}, {});
  EXPECT_EQ(rows.range, (TimeRange{begin, end}));
  EXPECT_EQ(sum(rows).allocated.samples, 2u);
}

TEST(HistoryTest, ARateChangeKeepsWeightsAndForgetsTheLive) {
  Recording recording;
  recording.alloc(1, 5);
  recording.advance(kSecond);
  const std::uint64_t begin = recording.now();
  recording.alloc(2, 5);
  recording.set_rate(0.1);
  recording.alloc(3, 5);
  recording.advance(kSecond);
  const std::uint64_t end = recording.now();
  recording.advance(kSecond);
  const Counters counters = sum(rows_in_range(recording.snapshot(), {begin, end}, {}));
  EXPECT_DOUBLE_EQ(counters.allocated.words, 110);
  EXPECT_DOUBLE_EQ(counters.live.words, 10);
  EXPECT_DOUBLE_EQ(sum(rows_in_range(recording.snapshot(), {0, begin}, {})).live.words, 100);
}

TEST(HistoryTest, LifetimeFilters) {
  Recording recording;
  recording.alloc(1, 5);  // dies after 10 ms
  recording.alloc(2, 5);  // dies after 6 s
  recording.alloc(3, 5);  // stays
  recording.advance(kSecond / 100);
  recording.die(1);
  for (int i = 0; i < 6; ++i) recording.advance(kSecond);
  recording.promote(2);
  recording.die(2, MEMPROF_DEALLOC_MAJOR);
  recording.alloc(4, 5);  // young
  recording.advance(kSecond / 2);
  const auto counts = [&](const LifetimeFilter& filter) {
    return sum(rows_in_range(recording.snapshot(), {}, filter));
  };
  EXPECT_EQ(counts({.fate = Fate::kDead}).allocated.samples, 2u);
  EXPECT_EQ(counts({.fate = Fate::kDead}).live.samples, 0u);
  EXPECT_EQ(counts({.fate = Fate::kAlive}).allocated.samples, 2u);
  EXPECT_EQ(counts({.fate = Fate::kAlive}).live.samples, 2u);
  EXPECT_EQ(counts({.max_seconds = 1}).allocated.samples, 1u);
  EXPECT_EQ(counts({.max_seconds = 1}).deallocated[0].samples, 1u);
  const Counters old = counts({.min_seconds = 2});
  EXPECT_EQ(old.deallocated[0].samples, 0u);
  EXPECT_EQ(old.deallocated[1].samples, 1u);
  EXPECT_EQ(old.promoted.samples, 1u);
  EXPECT_EQ(old.live.samples, 1u) << "the young one is too young";
  EXPECT_EQ(old.allocated.samples, 2u);
}

TEST(HistoryTest, AllocatedInARangeAndAliveAtItsEnd) {
  Recording recording;
  for (std::uint64_t id = 1; id <= 100; ++id) recording.alloc(id, 5);
  for (int i = 0; i < 10; ++i) recording.advance(kSecond);
  const std::uint64_t begin = recording.now();
  for (std::uint64_t id = 101; id <= 150; ++id) recording.alloc(id, 5);
  for (int i = 0; i < 4; ++i) recording.advance(kSecond);
  for (std::uint64_t id = 1; id <= 30; ++id) recording.die(id);     // older than the range
  for (std::uint64_t id = 101; id <= 120; ++id) recording.die(id);  // born in it
  recording.advance(kSecond);
  const std::uint64_t end = recording.now();
  recording.alloc(500, 5);
  recording.advance(kSecond);
  const Counters counters =
      sum(rows_in_range(recording.snapshot(), {begin, end}, {.allocated_in_range = true}));
  EXPECT_EQ(counters.live.samples, 30u);
  EXPECT_EQ(counters.deallocated[0].samples, 20u);
  EXPECT_EQ(counters.allocated.samples, 50u);
}

// Every count at every second, by brute force.
struct Truth {
  std::map<std::uint32_t, std::uint64_t> allocated, promoted, live, died;  // by callstack
};

TEST(HistoryTest, EverySpanOfARandomLifeIsExact) {
  Recording recording;
  std::mt19937_64 random(7);
  std::map<std::uint64_t, std::uint32_t> live;  // id: callstack
  std::vector<std::pair<std::uint64_t, Truth>> at{{recording.now(), {}}};
  Truth truth;
  std::uint64_t next_id = 1;
  for (int second = 0; second < 3000; ++second) {
    for (std::uint64_t i = random() % 4; i > 0; --i) {
      const auto callstack = static_cast<std::uint32_t>(1 + random() % 20);
      recording.alloc(next_id, callstack);
      live[next_id++] = callstack;
      ++truth.allocated[callstack], ++truth.live[callstack];
    }
    while (live.size() > 40) {
      auto victim = live.begin();
      std::advance(victim, random() % live.size());
      if (random() % 2 == 0) recording.promote(victim->first), ++truth.promoted[victim->second];
      recording.die(victim->first, MEMPROF_DEALLOC_MAJOR);
      --truth.live[victim->second], ++truth.died[victim->second];
      live.erase(victim);
    }
    recording.advance(kSecond + random() % (kSecond / 20));
    at.emplace_back(recording.now(), truth);
  }
  const ProfileSnapshot snapshot = recording.snapshot();
  const RangeCounter counter(snapshot);
  const auto truth_at = [&](std::uint64_t time) -> const Truth* {
    for (const auto& [when, what] : at) {
      if (when == time) return &what;
    }
    return nullptr;
  };
  int checked = 0;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t length = at.back().first - kStart;
    const TimeRange range =
        counter.resolve({kStart + random() % length, kStart + random() % length});
    const Truth *begin = truth_at(range.begin_ns), *end = truth_at(range.end_ns);
    ASSERT_NE(begin, nullptr) << "a limit is not the end of a second";
    ASSERT_NE(end, nullptr);
    Truth from = *begin, to = *end;
    for (const ProfileRow& row : rows_in_range(snapshot, range, {}).rows) {
      const std::uint32_t c = row.alloc_class.callstack.value();
      ASSERT_EQ(row.counters.allocated.samples, to.allocated[c] - from.allocated[c]);
      ASSERT_EQ(row.counters.promoted.samples, to.promoted[c] - from.promoted[c]);
      ASSERT_EQ(row.counters.live.samples, to.live[c]);
      ASSERT_EQ(row.counters.deallocated[1].samples, to.died[c] - from.died[c]);
      ASSERT_EQ(row.counters.deaths.histogram().total(), to.died[c] - from.died[c]);
      ++checked;
    }
  }
  EXPECT_GT(checked, 3000);
}

TEST(HistoryTest, MemoryIsGivenUpFromTheOldestOn) {
  Recording recording;
  for (std::uint64_t second = 0; second < 2000; ++second) {
    for (std::uint32_t callstack = 1; callstack <= 20; ++callstack) {
      recording.alloc(second * 100 + callstack, callstack);
    }
    recording.advance(kSecond);
  }
  const std::size_t before = recording.history().memory_bytes();
  const ProfileSnapshot full = recording.snapshot();
  while (recording.history().memory_bytes() > before / 4)
    ASSERT_TRUE(recording.history().evict_oldest());
  const ProfileSnapshot snapshot = recording.snapshot();
  std::size_t bytes = 0;
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    const auto& windows = snapshot.history.tiers[tier];
    for (std::size_t i = 0; i + (tier == 0 ? 1 : 0) < windows.size(); ++i) {
      bytes += windows[i]->memory_bytes();
      if (i > 0) {
        ASSERT_EQ(windows[i]->begin_ns(), windows[i - 1]->end_ns());
      }
    }
  }
  EXPECT_EQ(bytes, recording.history().memory_bytes());
  const std::uint64_t begin = recording.now() - 30 * kSecond;
  EXPECT_EQ(sum(rows_in_range(snapshot, {begin, 0}, {})).allocated.samples,
            sum(rows_in_range(full, {begin, 0}, {})).allocated.samples)
      << "the newest stays";
  EXPECT_EQ(sum(rows_in_range(snapshot, {}, {})).allocated.samples, 40'000u) << "so do totals";
  while (recording.history().evict_oldest()) {
  }
  EXPECT_LT(recording.history().memory_bytes(), before / 20);
}

// A limit below what ten seconds take: nothing may wait for its wider window.
TEST(HistoryTest, ASmallLimitIsKept) {
  constexpr std::size_t kLimit = 1000;
  Recording recording;
  for (std::uint64_t second = 0; second < 1300; ++second) {
    for (std::uint32_t callstack = 1; callstack <= 20; ++callstack) {
      recording.alloc(second * 100 + callstack, callstack);
    }
    recording.advance(kSecond);
    while (recording.history().memory_bytes() > kLimit)
      ASSERT_TRUE(recording.history().evict_oldest());
    if (second % 7 != 0) continue;  // which windows' widths are no multiples of
    const ProfileSnapshot snapshot = recording.snapshot();
    const RangeCounter counter(snapshot);
    // The remaining windows are contiguous and correct.
    const std::uint64_t oldest = snapshot.history.oldest_ns();
    const Counters counters =
        sum(rows_in_range(snapshot, {std::max(oldest, std::uint64_t{1}), 0}, {}));
    const double seconds = static_cast<double>(counter.now_ns() - oldest) / kSecond;
    ASSERT_NEAR(static_cast<double>(counters.allocated.samples), 20 * seconds, 20) << second;
  }
  EXPECT_EQ(sum(rows_in_range(recording.snapshot(), {}, {})).allocated.samples, 26'000u);
}

TEST(HistoryTest, OldTimesAreKnownInWiderWindows) {
  Recording recording;
  for (std::uint64_t second = 0; second < 3 * 3600; ++second) {
    recording.alloc(second + 1, 5);
    recording.advance(kSecond);
  }
  const ProfileSnapshot snapshot = recording.snapshot();
  EXPECT_LE(snapshot.history.tiers[0].size(), 602u);
  EXPECT_LE(snapshot.history.tiers[1].size(), 721u);
  const RangeCounter counter(snapshot);
  // 2.5 hours ago only minutes are known.
  const TimeRange range = counter.resolve({recording.now() - 9000 * kSecond, 0});
  EXPECT_EQ(range.begin_ns / kSecond % 60, 0u);
  const Counters counters = sum(rows_in_range(snapshot, range, {}));
  EXPECT_EQ(counters.allocated.samples, (recording.now() - range.begin_ns) / kSecond);
}

}  // namespace
}  // namespace memprofd
