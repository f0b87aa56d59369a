#include "daemon/aggregate/aggregator.h"

#include <gtest/gtest.h>

#include "tests/unit/ring_events.h"

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
    return aggregator_.promote(sample_record(2000, id, MEMPROF_PROMOTE));
  }
  CallstackId dealloc(std::uint64_t id, std::uint32_t kind, std::uint64_t time = 3000) {
    return aggregator_.dealloc(sample_record(time, id, kind));
  }
  const CallstackCounters& counters(std::uint32_t callstack) const {
    return aggregator_.by_callstack()[callstack];
  }
  const TargetCounters& totals() const { return aggregator_.totals(); }

  DropCounters drops_;
  Aggregator aggregator_{3, drops_};
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
  EXPECT_EQ(counters(5).lifetime.total(), 2u);
  EXPECT_DOUBLE_EQ(counters(5).lifetime.sum_ns(), 2 * 2000.0);
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
  EXPECT_EQ(counters(5).lifetime.count(0), 1u);
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

TEST(CallstackCountersTest, SumAddsEveryField) {
  CallstackCounters a, b;
  b.allocated.add(1, 1);
  b.promoted.add(2, 1);
  b.live.add(3, 1);
  b.deallocated[kMinor].add(4, 1);
  b.deallocated[kMajor].add(5, 1);
  b.lifetime.add(10, 6);
  a += b;
  a += b;
  EXPECT_EQ(a.allocated.samples, 2u);
  EXPECT_EQ(a.promoted.samples, 4u);
  EXPECT_EQ(a.live.samples, 6u);
  EXPECT_EQ(a.deallocated[kMinor].samples, 8u);
  EXPECT_EQ(a.deallocated[kMajor].samples, 10u);
  EXPECT_EQ(a.lifetime.total(), 12u);
}

}  // namespace
}  // namespace memprofd
