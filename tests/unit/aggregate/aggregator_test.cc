// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/aggregator.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <map>
#include <random>

#include "tests/kit/ring_events.h"

namespace memprofd {
namespace {

constexpr double kRate = 0.01;
constexpr int kMinor = static_cast<int>(Heap::kMinor);
constexpr int kMajor = static_cast<int>(Heap::kMajor);

class AggregatorTest : public testing::Test {
 protected:
  AggregatorTest() { aggregator_.begin_session(kRate); }

  void alloc(std::uint64_t id, std::uint32_t n_samples, std::uint32_t callstack,
             std::uint32_t kind = MEMPROF_ALLOC_MINOR, std::uint32_t source = 0) {
    aggregator_.alloc(sample_record(1000, id, kind, n_samples, 7, source), CallstackId(callstack));
  }
  CallstackId promote(std::uint64_t id) {
    return callstack_of(aggregator_.promote(sample_record(2000, id, MEMPROF_PROMOTE)));
  }
  CallstackId dealloc(std::uint64_t id, std::uint32_t kind, std::uint64_t time = 3000) {
    return callstack_of(aggregator_.dealloc(sample_record(time, id, kind)));
  }
  CallstackId callstack_of(const SampleEvent& event) const {
    return aggregator_.classes().get(event.alloc_class).callstack;
  }
  // Sums up all classes with the callstack.
  Counters counters(std::uint32_t callstack) const {
    Counters sum;
    for (std::uint32_t id = 0; id < aggregator_.by_class().size(); ++id) {
      const AllocClass& alloc_class = aggregator_.classes().get(ClassId(id));
      if (alloc_class.callstack == CallstackId(callstack)) sum += aggregator_.by_class()[id];
    }
    return sum;
  }
  const TargetCounters& totals() const { return aggregator_.totals(); }

  DropCounters drops_;
  Aggregator aggregator_{{.live_samples = 3}, drops_};
};

TEST_F(AggregatorTest, AllocationCountsByHeapSourceAndCallstack) {
  alloc(1, 2, 5);
  alloc(2, 3, 5, MEMPROF_ALLOC_MAJOR, MEMPROF_SOURCE_CUSTOM);
  EXPECT_EQ(totals().allocated[kMinor][0].samples, 2u);
  EXPECT_EQ(totals().allocated[kMajor][MEMPROF_SOURCE_CUSTOM].samples, 3u);
  EXPECT_EQ(totals().live.samples, 5u);
  EXPECT_EQ(totals().alloc_events, 2u);
  EXPECT_DOUBLE_EQ(counters(5).allocated.words, 500);
  EXPECT_DOUBLE_EQ(counters(5).live.words, 500);
}

TEST_F(AggregatorTest, PromotedBlockDiesInTheMajorHeap) {
  alloc(1, 2, 5);
  EXPECT_EQ(promote(1), CallstackId(5));
  EXPECT_EQ(dealloc(1, MEMPROF_DEALLOC_MAJOR), CallstackId(5));
  EXPECT_EQ(totals().promoted.samples, 2u);
  EXPECT_EQ(totals().live.samples, 0u);
  EXPECT_EQ(counters(5).promoted.samples, 2u);
  EXPECT_EQ(counters(5).live.words, 0);
  EXPECT_EQ(counters(5).deallocated[kMajor].samples, 2u);
  EXPECT_EQ(counters(5).deallocated[kMinor].samples, 0u);
  EXPECT_EQ(counters(5).deaths.histogram().total(), 2u);
  EXPECT_DOUBLE_EQ(counters(5).deaths.sum_ns(), 2 / kRate * 2000.0);
  EXPECT_EQ(drops_.total(), 0u);
}

TEST_F(AggregatorTest, BlockThatDiesYoung) {
  alloc(1, 2, 5);
  dealloc(1, MEMPROF_DEALLOC_MINOR);
  EXPECT_EQ(totals().deallocated[kMinor].samples, 2u);
  EXPECT_EQ(counters(5).deallocated[kMinor].samples, 2u);
}

TEST_F(AggregatorTest, ClockGoingBackIsALifetimeOfZero) {
  alloc(1, 1, 5);
  dealloc(1, MEMPROF_DEALLOC_MINOR, 10);
  EXPECT_EQ(counters(5).deaths.histogram().count(0), 1u);
}

TEST_F(AggregatorTest, UnknownSamplesAreCountedAndChangeNothing) {
  EXPECT_EQ(promote(9), CallstackId());
  EXPECT_EQ(dealloc(9, MEMPROF_DEALLOC_MAJOR), CallstackId());
  alloc(1, 1, 5);
  promote(1);
  promote(1);  // again
  EXPECT_EQ(totals().promoted.samples, 1u);
  EXPECT_EQ(drops_.get(Drop::kFollowUnknownSample), 3u);
  EXPECT_EQ(totals().promote_events, 3u);
  EXPECT_EQ(totals().dealloc_events, 1u);
}

TEST_F(AggregatorTest, FullLiveSetCountsAllocationsWithoutFollowing) {
  for (std::uint64_t id = 1; id <= 5; ++id) alloc(id, 1, 5);
  EXPECT_EQ(counters(5).allocated.samples, 5u);
  EXPECT_EQ(counters(5).live.samples, 3u);
  EXPECT_EQ(drops_.get(Drop::kFollowLiveSetFull), 2u);
}

TEST_F(AggregatorTest, IdUsedTwiceIsRefused) {
  alloc(1, 1, 5);
  alloc(1, 1, 6);
  EXPECT_EQ(drops_.get(Drop::kDecodeBadRecord), 1u);
  EXPECT_EQ(totals().live.samples, 1u);
  EXPECT_EQ(counters(6).live.samples, 0u);
}

TEST_F(AggregatorTest, SessionEndForgetsTheLiveBlocksOnly) {
  alloc(1, 2, 5);
  alloc(2, 1, 6);
  aggregator_.begin_session(0.5);
  EXPECT_EQ(drops_.get(Drop::kFollowSessionEnd), 2u);
  EXPECT_EQ(totals().live.samples, 0u);
  EXPECT_EQ(counters(5).live.samples, 0u);
  EXPECT_EQ(counters(5).allocated.samples, 2u);
  alloc(3, 2, 5);
  EXPECT_DOUBLE_EQ(counters(5).live.words, 4);
  EXPECT_DOUBLE_EQ(counters(5).allocated.words, 204);
}

// Ages of the live set have the weights of its session, as of when the target was last heard of.
TEST_F(AggregatorTest, AgesOfWhatIsAliveAndOfWhatIsForgotten) {
  alloc(1, 2, 5);  // at 1 us
  alloc(2, 1, 6);
  aggregator_.advance_clock_to(9'001'000);
  aggregator_.advance_clock_to(500);  // known already
  std::uint64_t aged = 0;
  for (const AgeCounts& of_class :
       ages_by_class(aggregator_.live_by_session(), aggregator_.by_class().size())) {
    for (const AgeCounts::Entry& entry : of_class.entries()) {
      EXPECT_EQ(entry.bucket(), LifetimeHistogram::bucket_of(9'000'000));
      EXPECT_DOUBLE_EQ(entry.words, static_cast<double>(entry.n) * 100);
      EXPECT_DOUBLE_EQ(entry.squares, entry.words * entry.words) << "one block";
      aged += entry.n;
    }
  }
  EXPECT_EQ(aged, 3u);
  EXPECT_TRUE(counters(5).forgotten.empty());
  aggregator_.begin_session(0.5);
  ASSERT_EQ(counters(5).forgotten.entries().size(), 1u);
  EXPECT_EQ(counters(5).forgotten.entries()[0].n, 2u);
  EXPECT_DOUBLE_EQ(counters(5).forgotten.entries()[0].words, 200) << "at the rate of then";
  for (const AgeCounts& of_class :
       ages_by_class(aggregator_.live_by_session(), aggregator_.by_class().size()))
    EXPECT_TRUE(of_class.empty());
}

TEST_F(AggregatorTest, BlocksOfSessionsBeforeAreFollowedAtTheirOwnRate) {
  alloc(1, 2, 5);
  alloc(2, 1, 5);
  const std::uint64_t sessions = aggregator_.sessions();
  aggregator_.begin_session(0.5, 2, true);
  EXPECT_EQ(drops_.total(), 0u);
  EXPECT_EQ(aggregator_.sessions(), sessions) << "nothing was forgotten";
  alloc(3, 2, 5);
  EXPECT_DOUBLE_EQ(totals().live.words, 304);
  promote(1);
  EXPECT_DOUBLE_EQ(totals().promoted.words, 200);
  dealloc(2, MEMPROF_DEALLOC_MINOR);
  EXPECT_DOUBLE_EQ(counters(5).live.words, 204);
  EXPECT_DOUBLE_EQ(counters(5).deallocated[kMinor].words, 100);
  double aged = 0;
  for (const AgeCounts& of_class :
       ages_by_class(aggregator_.live_by_session(), aggregator_.by_class().size())) {
    for (const AgeCounts::Entry& entry : of_class.entries()) aged += entry.words;
  }
  EXPECT_DOUBLE_EQ(aged, 204);
  std::map<double, std::uint64_t> died, born;  // by rate
  aggregator_.close_interval([&](const Interval& interval, double rate) {
    for (const IntervalCell& cell : interval.cells()) {
      born[rate] += cell.allocated;
      for (const DeathCounts::Entry& death : cell.deaths.entries()) died[rate] += death.n;
    }
  });
  EXPECT_EQ(born, (std::map<double, std::uint64_t>{{kRate, 3}, {0.5, 2}}));
  EXPECT_EQ(died, (std::map<double, std::uint64_t>{{kRate, 1}}));
  dealloc(1, MEMPROF_DEALLOC_MAJOR);
  dealloc(3, MEMPROF_DEALLOC_MINOR);
  EXPECT_EQ(totals().live.words, 0);
}

// Follows as many generations as the agent reports; the previous one is forgotten.
TEST_F(AggregatorTest, TheOldestOfTooManySessionsIsForgotten) {
  alloc(1, 2, 5);
  std::uint32_t generation = 1;
  const std::uint64_t sessions = aggregator_.sessions();
  while (generation < MEMPROF_FOLLOWED_SESSIONS) {
    aggregator_.begin_session(0.5, ++generation, true);
    if (generation == 2) alloc(2, 1, 6);
  }
  EXPECT_TRUE(aggregator_.follows(1));
  EXPECT_DOUBLE_EQ(totals().live.words, 202);
  EXPECT_EQ(aggregator_.sessions(), sessions);
  aggregator_.begin_session(0.25, ++generation, true);
  EXPECT_FALSE(aggregator_.follows(1));
  EXPECT_TRUE(aggregator_.follows(2));
  EXPECT_EQ(drops_.get(Drop::kFollowSessionEnd), 1u);
  EXPECT_EQ(counters(5).live.words, 0);
  EXPECT_DOUBLE_EQ(counters(5).forgotten.entries()[0].words, 200);
  EXPECT_DOUBLE_EQ(totals().live.words, 2);
  EXPECT_EQ(aggregator_.sessions(), sessions + 1);
  // The event belongs to an old session, whose place another one has taken.
  aggregator_.begin_session(0.25, generation + 40, true);
  EXPECT_FALSE(aggregator_.follows(2));
  EXPECT_EQ(totals().live.words, 0);
}

TEST_F(AggregatorTest, WhatTheAgentHasDiscardedIsForgotten) {
  alloc(1, 2, 5);
  aggregator_.begin_session(0.5, 2, true);
  alloc(2, 1, 6);
  const std::uint64_t sessions = aggregator_.sessions();
  aggregator_.forget_before(1);
  EXPECT_EQ(aggregator_.sessions(), sessions);
  aggregator_.forget_before(2);
  EXPECT_DOUBLE_EQ(totals().live.words, 2);
  EXPECT_EQ(aggregator_.sessions(), sessions + 1);
  aggregator_.forget_before(9);
  EXPECT_DOUBLE_EQ(totals().live.words, 2) << "the session that runs is not over";
}

TEST_F(AggregatorTest, ALossForgetsAllSessions) {
  alloc(1, 2, 5);
  aggregator_.begin_session(0.5, 2, true);
  alloc(2, 1, 6);
  aggregator_.start_over();
  EXPECT_EQ(totals().live.words, 0);
  EXPECT_EQ(drops_.get(Drop::kFollowSessionEnd), 2u);
}

// Blocks are dropped once, and counted then.
TEST_F(AggregatorTest, ThatBlocksDieThatWereLetGoIsNoNews) {
  alloc(1, 2, 5);
  alloc(2, 1, 6);
  aggregator_.start_over();
  alloc(3, 1, 6);
  promote(1);
  dealloc(1, MEMPROF_DEALLOC_MAJOR);
  dealloc(2, MEMPROF_DEALLOC_MINOR);
  dealloc(3, MEMPROF_DEALLOC_MINOR);
  EXPECT_EQ(drops_.get(Drop::kFollowSessionEnd), 2u);
  EXPECT_EQ(drops_.get(Drop::kFollowUnknownSample), 0u);
  dealloc(4, MEMPROF_DEALLOC_MINOR);
  EXPECT_EQ(drops_.get(Drop::kFollowUnknownSample), 1u) << "nobody has seen it";
}

// One in 2^n of the blocks that count for others is live.
TEST_F(AggregatorTest, ThatBlocksDieThatAreNotLiveIsNoNews) {
  for (std::uint64_t id = 1; id <= 64; ++id) {
    aggregator_.alloc(sample_record(10, id, MEMPROF_ALLOC_MINOR, 1), CallstackId(5), 0, 2);
  }
  EXPECT_GT(aggregator_.live().size(), 0u);
  EXPECT_LT(aggregator_.live().size(), 40u);
  for (std::uint64_t id = 1; id <= 64; ++id) dealloc(id, MEMPROF_DEALLOC_MINOR);
  EXPECT_EQ(aggregator_.live().size(), 0u);
  EXPECT_EQ(drops_.get(Drop::kFollowUnknownSample), 0u);
}

TEST(UntrackedTest, BuffersHaveNumbersOfTheirOwn) {
  Untracked detach(128);
  detach.see(SampleId(10 * 128 + 3));
  detach.add_all_seen();
  detach.see(SampleId(11 * 128 + 3));
  EXPECT_TRUE(detach.has(SampleId(10 * 128 + 3)));
  EXPECT_FALSE(detach.has(SampleId(11 * 128 + 3)));
  EXPECT_FALSE(detach.has(SampleId(5 * 128 + 4)));
}

TEST(CountersTest, SumAddsEveryField) {
  Counters a, b;
  b.allocated.add(1, weight_of_word(1));
  b.promoted.add(2, weight_of_word(1));
  b.live.add(3, weight_of_word(1));
  b.deallocated[kMinor].add(4, weight_of_word(1));
  b.deallocated[kMajor].add(5, weight_of_word(1));
  b.deaths.add(Heap::kMajor, 10, 6, 1);
  b.forgotten.add(Heap::kMinor, 10, 7, 1);
  b.ages.add(Heap::kMinor, 10, 8, 1);
  b.late.add({.bucket = 3, .entered = {9, 9}, .missed = {1, 1}});
  a += b;
  a += b;
  EXPECT_EQ(a.allocated.samples, 2u);
  EXPECT_EQ(a.promoted.samples, 4u);
  EXPECT_EQ(a.live.samples, 6u);
  EXPECT_EQ(a.deallocated[kMinor].samples, 8u);
  EXPECT_EQ(a.deallocated[kMajor].samples, 10u);
  EXPECT_EQ(a.deaths.histogram().total(), 12u);
  EXPECT_EQ(a.forgotten.histogram().total(), 14u);
  EXPECT_EQ(a.ages.histogram().total(), 16u);
  ASSERT_EQ(a.late.entries().size(), 1u);
  EXPECT_EQ(a.late.entries()[0].entered.words, 18);
}

// Interval cells by class, of one interval.
std::vector<std::pair<IntervalCell, double>> closed_cells(Aggregator& aggregator) {
  std::vector<std::pair<IntervalCell, double>> cells;
  aggregator.close_interval([&](const Interval& interval, double rate) {
    for (const IntervalCell& cell : interval.cells()) cells.emplace_back(cell, rate);
  });
  return cells;
}

TEST_F(AggregatorTest, ACutTellsWhatHappenedSinceTheLast) {
  alloc(1, 2, 5);
  alloc(2, 1, 6);
  dealloc(1, MEMPROF_DEALLOC_MAJOR);
  const auto first = closed_cells(aggregator_);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].first.allocated, 2u);
  ASSERT_EQ(first[0].first.deaths.entries().size(), 1u);
  EXPECT_EQ(first[0].first.deaths.entries()[0].heap(), Heap::kMajor);
  EXPECT_EQ(first[0].first.deaths.entries()[0].bucket(), LifetimeHistogram::bucket_of(2000));
  promote(2);
  const auto second = closed_cells(aggregator_);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].first.allocated, 0u);
  EXPECT_EQ(second[0].first.promoted, 1u);
  EXPECT_TRUE(second[0].first.deaths.empty());
  EXPECT_TRUE(closed_cells(aggregator_).empty());
}

TEST_F(AggregatorTest, APeekChangesNothing) {
  alloc(1, 2, 5);
  int told = 0;
  aggregator_.peek([&](const Interval& interval, double) { told += interval.cells().size(); });
  EXPECT_EQ(told, 1);
  EXPECT_EQ(closed_cells(aggregator_).size(), 1u);
}

TEST_F(AggregatorTest, ASessionInTheMiddleOfACutKeepsItsRate) {
  alloc(1, 2, 5);
  aggregator_.begin_session(0.5);
  alloc(2, 3, 5);
  const auto cells = closed_cells(aggregator_);
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].second, kRate);
  EXPECT_EQ(cells[0].first.allocated, 2u);
  EXPECT_EQ(cells[0].first.forgotten, 2u);
  EXPECT_EQ(cells[1].second, 0.5);
  EXPECT_EQ(cells[1].first.allocated, 3u);
}

// Live is always allocated minus deaths minus forgotten.
TEST_F(AggregatorTest, CellsExplainWhatIsLive) {
  for (std::uint64_t id = 1; id <= 5; ++id) alloc(id, 2, 5);  // two of them find no place
  alloc(1, 1, 5);                                             // a number used twice
  dealloc(2, MEMPROF_DEALLOC_MINOR);
  std::uint64_t live = 0;
  for (const auto& [cell, rate] : closed_cells(aggregator_)) {
    live += cell.allocated - cell.never_followed - cell.forgotten;
    for (const auto& death : cell.deaths.entries()) live -= death.n;
  }
  EXPECT_EQ(live, totals().live.samples);
  EXPECT_EQ(live, 4u);
}

TEST_F(AggregatorTest, ObjectsComeFromBlockSizes) {
  memprof_record record = sample_record(1000, 1, MEMPROF_ALLOC_MINOR, 2);
  record.size_words = 3;
  aggregator_.alloc(record, CallstackId(5));
  EXPECT_DOUBLE_EQ(counters(5).allocated_objects, 2 / kRate / 4);
  EXPECT_DOUBLE_EQ(counters(5).live_objects, 2 / kRate / 4);
  dealloc(1, MEMPROF_DEALLOC_MINOR);
  EXPECT_EQ(counters(5).live_objects, 0);
}

TEST(AllocClassTableTest, ThreadsBeyondTheLimitAreNotToldApart) {
  AllocClassTable table({.classes = 10, .threads = 2});
  const ClassId a = table.intern({.callstack = CallstackId(1), .thread = 7}).id;
  const ClassId b = table.intern({.callstack = CallstackId(1), .thread = 8}).id;
  const ClassId c = table.intern({.callstack = CallstackId(1), .thread = 9}).id;
  EXPECT_NE(a, b);
  EXPECT_EQ(table.get(c).thread, AllocClass::kAnyThread);
  EXPECT_EQ(table.intern({.callstack = CallstackId(1), .thread = 10}).id, c);
  EXPECT_EQ(table.intern({.callstack = CallstackId(1), .thread = 7}).id, a);
}

TEST(AllocClassTableTest, AFullTableAnswersTheUnknownClass) {
  AllocClassTable table({.classes = 1});
  EXPECT_NE(table.intern({.callstack = CallstackId(1)}).id, ClassId());
  EXPECT_EQ(table.intern({.callstack = CallstackId(2)}).id, ClassId());
  EXPECT_EQ(table.get(ClassId(99)), AllocClass());
}

TEST(AllocClassTableTest, WithoutMemoryNewClassesAreUnknown) {
  const auto memory = std::make_shared<ByteBudget>(10'000);
  AllocClassTable table({.memory = memory});
  std::uint32_t callstack = 1;
  while (table.intern({.callstack = CallstackId(callstack)}).id != ClassId()) ++callstack;
  EXPECT_GT(callstack, 2u);
  EXPECT_EQ(table.size(), callstack - 1);
  EXPECT_LE(memory->used(), 10'000u);
  EXPECT_EQ(memory->refused(), 1u);
  EXPECT_EQ(table.intern({.callstack = CallstackId(1)}).id, ClassId(1)) << "known ones stay";
  memory->set_limit(20'000);
  EXPECT_NE(table.intern({.callstack = CallstackId(callstack)}).id, ClassId());
}

TEST(AllocClassTableTest, ATableThatFillsTellsLessApart) {
  AllocClassTable table({.classes = 16, .threads = 64});
  const auto intern = [&](std::uint32_t callstack) {
    return table.intern({.callstack = CallstackId(callstack),
                         .thread = 7,
                         .domain = 3,
                         .size = SizeBucket::of(40),
                         .source = Source::kCustom});
  };
  std::vector<AllocClass> added;
  for (std::uint32_t callstack = 1; callstack <= 16; ++callstack) {
    const auto [id, whole] = intern(callstack);
    EXPECT_EQ(whole, callstack <= 8);
    added.push_back(table.get(id));
    EXPECT_EQ(added.back().callstack, CallstackId(callstack));
    EXPECT_EQ(added.back().source, Source::kCustom);
  }
  EXPECT_EQ(added[7].thread, 7u);
  EXPECT_EQ(added[8].thread, AllocClass::kAnyThread);
  EXPECT_EQ(added[11].size, SizeBucket::of(40));
  EXPECT_EQ(added[12].size.smallest_words(), 32U);
  EXPECT_EQ(added[12].size.largest_words(), 63U);
  EXPECT_EQ(added[13].domain, 3);
  EXPECT_FALSE(added[14].size.is_known());
  EXPECT_EQ(added[14].domain, AllocClass::kAnyDomain);
  EXPECT_EQ(intern(17).id, ClassId());
  EXPECT_EQ(intern(3).id, ClassId(3)) << "what there is stays";
  EXPECT_TRUE(intern(3).whole);
  EXPECT_EQ(intern(15).id, ClassId(15));
  EXPECT_FALSE(intern(15).whole);
}

// The numbers of blocks that nobody knows are not made up: 100 samples of 10,000 words once
// passed for 100 times as many blocks of one word.
TEST(AggregatorLimitsTest, UnknownBlocksAreInNoNumberOfBlocks) {
  DropCounters drops;
  Aggregator aggregator({.classes = {.classes = 4}}, drops);
  aggregator.begin_session(kRate);
  for (std::uint32_t callstack = 1; callstack <= 8; ++callstack) {
    memprof_record record = sample_record(1000, callstack, MEMPROF_ALLOC_MINOR, 2);
    record.size_words = 99;
    aggregator.alloc(record, CallstackId(callstack));
  }
  double objects = 0, words = 0;
  for (const Counters& counters : aggregator.by_class()) {
    objects += counters.allocated_objects;
    words += counters.allocated.words;
  }
  EXPECT_DOUBLE_EQ(words, 8 * 2 / kRate);
  EXPECT_NEAR(objects, 4 * 2 / kRate / 100, 0.2) << "one of the four has its octave only";
  EXPECT_EQ(drops.get(Drop::kFollowClassesCut), 2u);
  EXPECT_EQ(drops.get(Drop::kFollowClassesFull), 4u);
  EXPECT_EQ(aggregator.by_class()[0].allocated_objects, 0);
}

// An allocation: n samples of a block of that many words.
void add_large(Aggregator& aggregator, std::uint64_t id, std::uint32_t n_samples,
               std::uint64_t words) {
  memprof_record record = sample_record(1000, id, MEMPROF_ALLOC_MAJOR, n_samples);
  record.size_words = words;
  aggregator.alloc(record, CallstackId(5));
}

// From its samples, each of these is known to 2 to 30 %.
TEST(AggregatorLargeTest, LiveBlocksOf16MiBReadAsThat) {
  constexpr std::uint64_t kWords = 1 << 21;
  std::mt19937_64 random(3);
  for (const double rate : {1e-2, 1e-3, 1e-4, 1e-5}) {
    DropCounters drops;
    Aggregator aggregator({}, drops);
    aggregator.begin_session(rate);
    std::binomial_distribution<std::uint32_t> samples(kWords, rate);
    for (std::uint64_t id = 1; id <= 12; ++id) add_large(aggregator, id, samples(random), kWords);
    for (std::uint64_t id = 1; id <= 2; ++id) {
      aggregator.dealloc(sample_record(2000, id, MEMPROF_DEALLOC_MAJOR));
    }
    const Estimate& live = aggregator.totals().live;
    EXPECT_NEAR(live.bytes() / (160 << 20), 1, 0.001) << rate;
    EXPECT_LT(live.stderr_bytes() / live.bytes(), 0.001) << rate;
    const Counters& counters = aggregator.by_class().back();
    EXPECT_NEAR(counters.live_objects, 10, 1e-6);
    EXPECT_NEAR(counters.allocated_objects, 12, 1e-6);
    EXPECT_DOUBLE_EQ(counters.deallocated[kMajor].words, 0.2 * live.words);
    EXPECT_DOUBLE_EQ(counters.deaths.entries().front().words, 0.2 * live.words);
  }
}

TEST(AggregatorLargeTest, PromotedBlocksCountAsTheyWereAllocated) {
  DropCounters drops;
  Aggregator aggregator({}, drops);
  aggregator.begin_session(1e-3);
  memprof_record record = sample_record(1000, 1, MEMPROF_ALLOC_MINOR, 4);
  record.size_words = 1'000;
  aggregator.alloc(record, CallstackId(5));
  aggregator.promote(sample_record(2000, 1, MEMPROF_PROMOTE));
  EXPECT_DOUBLE_EQ(aggregator.totals().promoted.words, aggregator.totals().allocated[0][0].words);
  EXPECT_DOUBLE_EQ(aggregator.totals().promoted.words, weight_of_block(1'001, 1e-3).words);
}

// If the table has no room for a size, its samples count as those of small blocks.
TEST(AggregatorLargeTest, ASizeThatIsNotToldCountsBySamples) {
  DropCounters drops;
  Aggregator aggregator({.classes = {.classes = 0}}, drops);
  aggregator.begin_session(kRate);
  add_large(aggregator, 1, 35, 4'000);
  add_large(aggregator, 2, 45, 8'000);
  EXPECT_DOUBLE_EQ(aggregator.totals().live.words, 80 / kRate);
  EXPECT_DOUBLE_EQ(aggregator.totals().live.variance_words2, 80 * (1 - kRate) / kRate / kRate);
}

// A hit of observe mode stands for the words since the one before, whatever block it fell on.
TEST(AggregatorLargeTest, ObservedHitsKeepTheirOwnWeight) {
  DropCounters drops;
  Aggregator aggregator({}, drops);
  aggregator.observe(
      {.callstack = CallstackId(5), .size_words = 10'000, .weight_words = WeightScale::words(90)});
  EXPECT_NEAR(aggregator.totals().allocated[0][0].words / WeightScale::words(90), 1, 1e-9);
}

// Each bucket includes both ends, and the next begins where it ends.
void expect_tiles(SizeBucket (*of)(std::uint64_t), std::uint64_t first, std::uint64_t end,
                  double precision) {
  for (std::uint64_t next = first; next < end;) {
    const SizeBucket bucket = of(next);
    ASSERT_EQ(bucket.smallest_words(), next);
    ASSERT_EQ(of(bucket.largest_words()), bucket) << next;
    ASSERT_EQ(SizeBucket::from_index(bucket.index()), bucket);
    const double widest = static_cast<double>(bucket.largest_words() - bucket.smallest_words());
    ASSERT_LE(widest / 2, precision * static_cast<double>(bucket.smallest_words())) << next;
    next = bucket.largest_words() + 1;
  }
}

TEST(SizeBucketTest, BucketsTileAllSizes) {
  expect_tiles(SizeBucket::coarse_of, 0, 1u << 20, 0.032);
  expect_tiles(SizeBucket::of, 0, 512, 0.032);
  expect_tiles(SizeBucket::of, 512, 2048, 0);
  expect_tiles(SizeBucket::of, 2048, 1ULL << 40, 0.0005);
  EXPECT_EQ(SizeBucket::of(~0ULL), SizeBucket::of(1ULL << 48));
}

TEST(SizeBucketTest, AnOctaveHasAllOfItsSizes) {
  for (std::uint64_t words = 2; words < 1ULL << 48; words += 1 + words / 3) {
    const SizeBucket octave = SizeBucket::of(words).of_octave();
    ASSERT_EQ(octave.smallest_words(), std::bit_floor(words));
    ASSERT_EQ(octave.largest_words(), 2 * std::bit_floor(words) - 1);
    ASSERT_EQ(octave.of_octave(), octave);
    ASSERT_EQ(SizeBucket::from_index(octave.index()), octave);
  }
  EXPECT_EQ(SizeBucket::of(1).of_octave(), SizeBucket::of(1));
  EXPECT_FALSE(SizeBucket().of_octave().is_known());
  EXPECT_FALSE(SizeBucket::from_index(0xffff).is_known());
}

TEST(SizeBucketTest, LargeSizesOfBlocksAreFine) {
  for (const std::uint64_t words : {512ULL, 2048ULL, 1ULL << 21, (1ULL << 40) - 1}) {
    EXPECT_TRUE(SizeBucket::of(words).fine()) << words;
    EXPECT_FALSE(SizeBucket::coarse_of(words).fine()) << words;
    EXPECT_FALSE(SizeBucket::of(words).of_octave().fine()) << words;
  }
  for (const std::uint64_t words : {0ULL, 1ULL, 511ULL, 1ULL << 40}) {
    EXPECT_FALSE(SizeBucket::of(words).fine()) << words;
  }
}

}  // namespace
}  // namespace memprofd
