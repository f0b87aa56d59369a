// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/query/range_counter.h"
#include "tests/kit/quantile.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

// Blocks forgotten at a rate change were allocated nevertheless.
TEST(Range, WhatIsAllocatedInARangeIsWhatItsWindowsSay) {
  Recording recording;
  std::uint64_t id = 0;
  const auto run = [&](int seconds) {
    for (int second = 0; second < seconds; ++second) {
      for (std::uint32_t callstack = 1; callstack <= 100; ++callstack) {
        recording.alloc(++id, callstack);
        if (id > 500) recording.die(id - 500);  // after 5 s
      }
      recording.advance(kSecond);
    }
  };
  run(20);
  const std::uint64_t begin = recording.now();
  run(12);
  recording.set_rate(0.02);
  run(12);
  const ProfileSnapshot snapshot = recording.snapshot();
  const Counters plain = sum(rows_in_range(snapshot, {begin, 0}, {}));
  const Counters fresh = sum(rows_in_range(snapshot, {begin, 0}, {.allocated_in_range = true}));
  EXPECT_DOUBLE_EQ(plain.allocated.words, 1200 * 100 + 1200 * 50);
  EXPECT_DOUBLE_EQ(fresh.allocated.words, plain.allocated.words);
  EXPECT_EQ(fresh.allocated.samples, plain.allocated.samples);
  EXPECT_DOUBLE_EQ(fresh.allocated_objects, plain.allocated_objects);
  EXPECT_NEAR(fresh.live.words, 500 * 50, 10 * 50);
  // The fate of those that were live at the change is not known: they are in neither answer, and
  // nothing else is missing, nor is any block in both.
  const auto words = [&](const LifetimeFilter& filter) {
    return sum(rows_in_range(snapshot, {begin, 0}, filter)).allocated.words;
  };
  const double alive = words({.fate = Fate::kAlive, .allocated_in_range = true});
  const double dead = words({.fate = Fate::kDead, .allocated_in_range = true});
  EXPECT_NEAR(dead, (1200 - 500) * 100 + (1200 - 500) * 50, 20 * 100);
  EXPECT_NEAR(alive + dead, plain.allocated.words - 500 * 100, 20 * 100);
  // All of them died at the age of 5 s, in each of the two sessions.
  EXPECT_NEAR(words({.min_seconds = 3, .fate = Fate::kDead}), 1200 * 100 + 700 * 50, 1e-6);
  EXPECT_NEAR(words({.min_seconds = 8, .fate = Fate::kDead}), 0, 1e-6);
}

// Samples, words and blocks as reported, row by row.
std::vector<double> counts_of(const RangeRows& rows) {
  std::vector<double> result;
  for (const ProfileRow& row : rows.rows) {
    const Counters& of = row.counters;
    for (const Estimate& one :
         {of.allocated, of.promoted, of.live, of.deallocated[0], of.deallocated[1]}) {
      result.insert(result.end(), {static_cast<double>(one.samples), one.words, one.variance_words2,
                                   one.skew_words3});
    }
    result.insert(result.end(), {of.allocated_objects, of.live_objects});
  }
  return result;
}

TEST(Range, CountsAreTheSameWithoutLifetimes) {
  Recording recording;
  std::uint64_t id = 0;
  std::vector<std::uint64_t> limits{0};
  for (int second = 0; second < 40; ++second) {
    if (second == 25) recording.set_rate(0.003);
    for (std::uint32_t callstack = 1; callstack <= 20; ++callstack) {
      recording.alloc(++id, callstack);
      if (id % 3 == 0) recording.die(id);
      if (id > 100 && id % 7 == 0) recording.die(id - 100);
    }
    recording.advance(kSecond);
    if (second % 13 == 12) limits.push_back(recording.now());
  }
  const ProfileSnapshot snapshot = recording.snapshot();
  std::vector<TimeRange> ranges{{.until_peak = true}};
  for (const std::uint64_t begin : limits) {
    for (const std::uint64_t end : limits) ranges.push_back({begin, end});
  }
  const LifetimeFilter filters[] = {
      {}, {.allocated_in_range = true}, {.min_seconds = 2}, {.max_seconds = 4}};
  for (const TimeRange& range : ranges) {
    for (const LifetimeFilter& filter : filters) {
      const RangeRows all = rows_in_range(snapshot, range, filter);
      const RangeRows counts = rows_in_range(snapshot, range, filter, Lifetimes::kLeftOut);
      EXPECT_EQ(counts.range, all.range);
      EXPECT_EQ(counts_of(counts), counts_of(all)) << range.begin_ns << " " << range.end_ns;
    }
  }
  const Counters rest = sum(rows_in_range(snapshot, {limits[1], limits[2]}, {}));
  EXPECT_GT(rest.deaths.entries().size(), 1u);
  EXPECT_GT(rest.deallocated[0].samples, 0u);
}

// A sample at a low rate stands for more words. First all blocks live a moment, then 4 s.
TEST(Range, LifetimesAreThoseOfWordsWhateverTheirRates) {
  Recording recording;
  std::uint64_t id = 0;
  recording.advance(kSecond);
  for (int i = 0; i < 1'000; ++i) {  // 100 words each
    recording.alloc(++id, 1);
    recording.die(id);
  }
  recording.advance(kSecond);
  recording.set_rate(1e-4);
  for (int i = 0; i < 20; ++i) recording.alloc(++id, 1);  // 10,000 words each
  recording.advance(4 * kSecond);
  for (int i = 0; i < 20; ++i) recording.die(id--);
  recording.advance(kSecond);
  const ProfileSnapshot snapshot = recording.snapshot();
  const Counters all = sum(rows_in_range(snapshot, {}, {}));
  EXPECT_NEAR(testing::quantile_ns(all.deaths.histogram(), 0.5) / 4e9, 1, 0.42)
      << "2/3 of the words";
  const Counters late = sum(rows_in_range(snapshot, {}, {.min_seconds = 1, .fate = Fate::kDead}));
  EXPECT_NEAR(late.deallocated[0].words, 200'000, 1e-6);
  EXPECT_NEAR(late.deaths.entries().front().words, 200'000, 1e-6);
  // Which of the deaths are of the low rate is not kept: their error is not taken for smaller.
  EXPECT_GE(late.deallocated[0].variance_words2, 20 * 0.999e8);
  const Limits limits = late.deallocated[0].limits_bytes(0);
  EXPECT_LT(limits.lower, late.deallocated[0].bytes() - kBytesPerWord * 50'000);
  EXPECT_GT(limits.upper, late.deallocated[0].bytes() + kBytesPerWord * 50'000);
  const Counters early = sum(rows_in_range(snapshot, {}, {.max_seconds = 1, .fate = Fate::kDead}));
  EXPECT_NEAR(early.deallocated[0].words, 100'000, 1e-6);
}

// Blocks of 3 and of 2,000 words: what is live at the end of any second is what was alive then, by
// the weights of both.
TEST(Range, LargeBlocksCountOnceInEveryRange) {
  constexpr double kRate = 0.01;
  const double large = weight_of_block(2'001, kRate).words;
  Recording recording;
  recording.set_rate(kRate);
  std::uint64_t id = 0;
  std::vector<std::uint64_t> times;
  for (int second = 0; second < 40; ++second) {
    recording.alloc(++id, 1, 10 + second % 20, 2'000);
    recording.alloc(++id, 2, 1);
    if (second >= 10) recording.die(id - 20);  // the small one of 10 s ago
    if (second >= 5) recording.die(id - 11);   // the large one of 5 s ago
    recording.advance(kSecond);
    times.push_back(recording.now());
  }
  const ProfileSnapshot snapshot = recording.snapshot();
  for (const int until : {4, 20, 39}) {
    const Counters all = sum(rows_in_range(snapshot, {0, times[until]}, {}));
    const int born = until + 1;
    EXPECT_NEAR(all.allocated.words, born * (large + 100), 1e-6);
    EXPECT_NEAR(all.live.words, std::min(born, 5) * large + std::min(born, 10) * 100, 1e-6);
    EXPECT_NEAR(all.allocated_objects, born * (large / 2'001 + 100 / 4.0), 1e-6);
  }
  const Counters late = sum(rows_in_range(snapshot, {times[19], times[29]}, {}));
  EXPECT_NEAR(late.deallocated[0].words, 10 * (large + 100), 1e-6);
  const Counters fresh =
      sum(rows_in_range(snapshot, {times[19], times[29]}, {.fate = Fate::kDead}));
  EXPECT_NEAR(fresh.deallocated[0].words, 10 * (large + 100), 1e-6);
  EXPECT_NEAR(fresh.deallocated[0].variance_words2, 10 * 0.99e4, 1) << "of the small ones";
}

// 1.3 s, of whose bucket 61 % is above 1.2 s.
TEST(Range, SharesOfDeathsAreRoundedOnceAtTheEnd) {
  Recording recording;
  std::uint64_t id = 0;
  for (int second = 0; second < 120; ++second) {
    const std::uint64_t born_before = id;
    for (std::uint32_t callstack = 1; callstack <= 10; ++callstack)
      recording.alloc(++id, callstack);
    recording.advance(3 * kSecond / 10);
    for (std::uint64_t old = born_before;
         old > born_before - std::min<std::uint64_t>(born_before, 10);) {
      recording.die(old--);
    }
    recording.advance(7 * kSecond / 10);
  }
  for (const int seconds : {1, 100}) {
    const std::uint64_t begin = recording.now() - static_cast<std::uint64_t>(seconds) * kSecond;
    const Counters counters = sum(
        rows_in_range(recording.snapshot(), {begin, 0}, {.min_seconds = 1.2, .fate = Fate::kDead}));
    const double all = 10 * seconds;
    EXPECT_NEAR(counters.deallocated[0].words, 0.61 * all * 100, 0.01 * all * 100);
    EXPECT_NEAR(static_cast<double>(counters.deallocated[0].samples), 0.61 * all, 0.01 * all + 1);
    EXPECT_NEAR(static_cast<double>(counters.deaths.histogram().total()), 0.61 * all,
                0.01 * all + 1);
    EXPECT_GT(counters.deallocated[0].variance_words2, 1.2 * counters.deallocated[0].words * 100)
        << "which of them count is a guess";
  }
}

// Where sessions go on following, what is live was sampled at several rates. As throws of chance
// two samples of 100 words and two of 2 have a variance of 2 * 100^2 + 2 * 2^2: taken back, and
// when one of each has died and another one was born.
TEST(Range, WhatIsLiveMayBeOfSeveralRates) {
  Recording recording;
  recording.alloc(1, 7);
  recording.alloc(2, 7);
  recording.advance(2 * kSecond);
  recording.resume_at(0.5);
  recording.alloc(3, 7);
  recording.alloc(4, 7);
  recording.advance(2 * kSecond);
  const std::uint64_t before = recording.now();
  recording.die(1);
  recording.die(4);
  recording.alloc(5, 7);
  recording.advance(2 * kSecond);
  const ProfileSnapshot snapshot = recording.snapshot();
  const RangeCounter counter(snapshot, VarianceModel::kChance);
  const Portion now = counter.live_at(counter.now_ns()).front();
  EXPECT_DOUBLE_EQ(now.words, 104);
  EXPECT_DOUBLE_EQ(now.variance_words2, 10'008);
  const Portion then = counter.live_at(counter.resolve({0, before}).end_ns).front();
  EXPECT_DOUBLE_EQ(then.words, 204);
  EXPECT_DOUBLE_EQ(then.variance_words2, 20'008);
  EXPECT_EQ(recording.aggregator().sessions(), 1u) << "nothing was forgotten";
}

// The true number of blocks that pass a limit inside their bucket is in the interval.
TEST(Range, LimitsContainAllOfABucketThatAFilterCutsAndNothingOfIt) {
  Recording recording;
  std::uint64_t id = 0;
  // Blocks that all live for 1.1 s, in the bucket from 1.05 to 1.48 s.
  for (int second = 0; second < 20; ++second) {
    for (int i = 0; i < 100; ++i) recording.alloc(++id, 1);
    recording.advance(kSecond / 10);
    if (second > 0) {
      for (int i = 0; i < 100; ++i) recording.die(id - 199 + i);
    }
    recording.advance(kSecond * 9 / 10);
  }
  const ProfileSnapshot snapshot = recording.snapshot();
  const double all = 19 * 100 * 100 * kBytesPerWord;
  const auto limits = [&](const TimeRange& range, const LifetimeFilter& filter) {
    const Estimate dead = sum(rows_in_range(snapshot, range, filter)).allocated;
    return dead.limits_bytes(dead.grain_or(0.01));
  };
  for (const double seconds : {1.06, 1.2, 1.3, 1.45}) {
    for (const bool is_minimum : {true, false}) {
      const LifetimeFilter filter{.min_seconds = is_minimum ? seconds : 0,
                                  .max_seconds = is_minimum ? 0 : seconds,
                                  .fate = Fate::kDead};
      const double truth = (1.1 >= seconds) == is_minimum ? all : 0;
      const Limits found = limits({}, filter);
      EXPECT_LE(found.lower, truth) << seconds << (is_minimum ? " min" : " max");
      EXPECT_GE(found.upper, truth) << seconds << (is_minimum ? " min" : " max");
      LifetimeFilter fresh = filter;
      fresh.allocated_in_range = true;
      const Limits of_fresh = limits({recording.now() - 10 * kSecond, 0}, fresh);
      EXPECT_LE(of_fresh.lower, truth / 2);
      EXPECT_GE(of_fresh.upper, truth * 8 / 19);
    }
  }
  // A limit at the end of a bucket cuts none, so the interval is that of the samples.
  const Limits exact = limits({}, {.min_seconds = 0.9, .fate = Fate::kDead});
  EXPECT_GT(exact.lower, 0.9 * all);
  EXPECT_LT(exact.upper, 1.1 * all);
}

// Live blocks: those that died in a bucket near the limit may have been born before or after it.
TEST(Range, LimitsOfLiveBlocksContainWhatTheirDeathsLeaveOpen) {
  Recording recording;
  std::uint64_t id = 0;
  for (int second = 0; second < 20; ++second) {
    for (int i = 0; i < 100; ++i) recording.alloc(++id, 1);
    recording.advance(kSecond);
    if (second >= 5) {
      for (int i = 0; i < 50; ++i) recording.die(id - 599 + 2 * i);  // after 6 s
    }
  }
  recording.advance(kSecond);
  const ProfileSnapshot snapshot = recording.snapshot();
  const Estimate live =
      sum(rows_in_range(snapshot, {}, {.min_seconds = 8, .fate = Fate::kAlive})).live;
  EXPECT_GT(live.divided_less_words + live.divided_more_words, 0);
  const Limits found = live.limits_bytes(live.grain_or(0.01));
  const double truth = 13 * 50 * 100 * kBytesPerWord;
  EXPECT_LE(found.lower, truth);
  EXPECT_GE(found.upper, truth);
}

}  // namespace
}  // namespace memprofd
