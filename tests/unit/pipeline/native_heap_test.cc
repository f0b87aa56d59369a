// SPDX-License-Identifier: Apache-2.0
// The path of native blocks from the ring to the counts.
#include <gtest/gtest.h>

#include <cstdint>

#include "daemon/pipeline/pipeline.h"
#include "tests/kit/ring_events.h"

namespace memprofd {
namespace {

constexpr double kInterval = 8192;  // bytes

class NativeHeapTest : public testing::Test {
 protected:
  explicit NativeHeapTest(double rate = 8 / kInterval) : pipeline_({.native_heap_rate = rate}) {
    pipeline_.begin_session(1, 1e-3);
    pipeline_.on_ring_record(ring_batch({.generation = 1}, {}).bytes());
  }

  void block(memprof_c_block event) {
    event.header.kind = MEMPROF_EVENT_C_BLOCK;
    event.header.tid = 7;
    if (event.generation == 0) event.generation = 1;
    pipeline_.on_ring_record(RingRecord(&event, sizeof event, nullptr, 0).bytes());
  }
  void alloc(std::uint64_t id, std::uint64_t bytes, std::uint64_t stack = 0,
             std::uint64_t time_ns = 1000) {
    block({.header = {.time_ns = time_ns},
           .stack_id = stack,
           .id = id,
           .bytes = bytes,
           .n_samples = 1});
  }
  void free(std::uint64_t id, std::uint64_t time_ns = 2000) {
    block({.header = {.time_ns = time_ns}, .id = id});
  }
  void capture(std::uint64_t stack) {
    memprof_capture event{};
    event.header = {.tid = 7, .time_ns = 1000};
    event.stack_id = stack;
    event.alloc_idx = -1;
    event.flags = MEMPROF_CAPTURE_OF_C;
    pipeline_.on_ring_record(ring_capture(event, {0x1000, 0x2000}).bytes());
  }
  ProfileSnapshot snapshot() {
    ProfileSnapshot result;
    pipeline_.fill(result);
    return result;
  }
  std::uint64_t dropped(Drop drop) { return pipeline_.drops().get(drop); }

  Pipeline pipeline_;
};

TEST_F(NativeHeapTest, AnEndForgetsBlocksAndStopsCounting) {
  alloc(1, 1000);
  pipeline_.end_native_heap();
  alloc(2, 1000);
  const ProfileSnapshot taken = snapshot();
  EXPECT_DOUBLE_EQ(kInterval, taken.native_heap().allocated.bytes());
  EXPECT_DOUBLE_EQ(0, taken.native_heap().live.bytes());
  EXPECT_EQ(1u, dropped(Drop::kFollowSessionEnd));
}

TEST_F(NativeHeapTest, ABlockCountsAtItsOwnRateAndForNothingElse) {
  alloc(1, 1000);
  const ProfileSnapshot taken = snapshot();
  EXPECT_DOUBLE_EQ(kInterval, taken.native_heap().allocated.bytes());
  EXPECT_DOUBLE_EQ(kInterval, taken.native_heap().live.bytes());
  EXPECT_DOUBLE_EQ(0, taken.counters.live.words);
  EXPECT_DOUBLE_EQ(0, taken.counters.all_allocated().words);
  EXPECT_EQ(0u, taken.counters.alloc_events);
  ASSERT_EQ(1u, taken.rows.size());
  EXPECT_EQ(HeapKind::kC, taken.rows[0].alloc_class.heap_kind());
  EXPECT_EQ(7u, taken.rows[0].alloc_class.thread);
  EXPECT_NEAR(1, taken.rows[0].counters.live_objects * 1000 / kInterval, 0.01);
}

TEST_F(NativeHeapTest, ALargeBlockCountsOnceByItsProbability) {
  alloc(1, 1 << 20);
  // This block was almost certain to be sampled.
  EXPECT_NEAR(1 << 20, snapshot().native_heap().live.bytes(), 1 << 11);
}

TEST_F(NativeHeapTest, AFreedBlockHasLived) {
  alloc(1, 1000, 0, 1'000'000'000);
  alloc(2, 1000, 0, 1'000'000'000);
  free(1, 3'000'000'000);
  const ProfileSnapshot taken = snapshot();
  EXPECT_DOUBLE_EQ(kInterval, taken.native_heap().live.bytes());
  ASSERT_EQ(1u, taken.rows.size());
  EXPECT_EQ(1u, taken.rows[0].counters.deallocated[static_cast<int>(Heap::kMajor)].samples);
  EXPECT_DOUBLE_EQ(kInterval,
                   taken.deallocated_by_heap_kind()[static_cast<int>(HeapKind::kC)].bytes());
}

TEST_F(NativeHeapTest, ItsCallstackIsTheOneThatCameBefore) {
  capture(42);
  alloc(1, 1000, 42);
  alloc(2, 1000, 42);
  const ProfileSnapshot taken = snapshot();
  ASSERT_EQ(1u, taken.rows.size());
  EXPECT_EQ(2u, taken.rows[0].counters.allocated.samples);
  EXPECT_NE(CallstackId(), taken.rows[0].alloc_class.callstack);
  EXPECT_EQ(0u, pipeline_.captures_seen()) << "nor is it one of the runtime's samples";
}

TEST_F(NativeHeapTest, ABlockOfNoCertainCallstackIsCountedWithoutOne) {
  alloc(1, 1000);
  EXPECT_EQ(CallstackId(), snapshot().rows.at(0).alloc_class.callstack);
}

TEST_F(NativeHeapTest, AfterALossNothingIsLiveThatMayHaveBeenFreed) {
  alloc(1, 1000);
  block({.id = 2, .bytes = 1000, .n_samples = 1, .lost = 1});
  EXPECT_DOUBLE_EQ(kInterval, snapshot().native_heap().live.bytes());
  EXPECT_DOUBLE_EQ(2 * kInterval, snapshot().native_heap().allocated.bytes());
  EXPECT_EQ(1u, dropped(Drop::kFollowSessionEnd));
  free(1);
  EXPECT_EQ(1u, dropped(Drop::kFollowUnknownSample));
}

TEST_F(NativeHeapTest, ASessionBeginsWithNothing) {
  alloc(1, 1000);
  block({.id = 2, .bytes = 1000, .n_samples = 1, .generation = 2});
  EXPECT_DOUBLE_EQ(kInterval, snapshot().native_heap().live.bytes());
}

TEST_F(NativeHeapTest, AThreadThatIsLateEndsNoSession) {
  alloc(1, 1000);
  block({.id = 3, .bytes = 1000, .n_samples = 1, .generation = 2});
  alloc(2, 1000);
  free(3);  // of the previous session, as that thread reports
  EXPECT_DOUBLE_EQ(kInterval, snapshot().native_heap().live.bytes());
}

TEST_F(NativeHeapTest, SessionsOfTheRuntimeAndTheirLossesDoNotMatter) {
  alloc(1, 1000);
  pipeline_.begin_session(2, 1e-4);
  pipeline_.on_ring_record(ring_batch({.generation = 2}, {}).bytes());
  pipeline_.on_ring_record(
      ring_batch({.first_seq = 100, .generation = 2}, {sample_record(1, 9, MEMPROF_ALLOC_MINOR, 1)})
          .bytes());
  EXPECT_DOUBLE_EQ(kInterval, snapshot().native_heap().live.bytes());
}

TEST_F(NativeHeapTest, EventsThatMakeNoSenseAreRefused) {
  block({.id = 0, .bytes = 1000, .n_samples = 1});
  block({.id = 1, .bytes = 1000});
  block({.id = 1, .bytes = std::uint64_t{1} << 60, .n_samples = 1});
  block({.id = std::uint64_t{1} << 63, .bytes = 1000, .n_samples = 1});
  EXPECT_EQ(4u, dropped(Drop::kDecodeBadRecord));
  EXPECT_TRUE(snapshot().rows.empty());
}
TEST_F(NativeHeapTest, ResidentPartOfABlock) {
  alloc(1, 1000);
  alloc(2, 1000);
  EXPECT_DOUBLE_EQ(0, snapshot().native_heap().resident.bytes()) << "nobody has looked";
  pipeline_.note_native_blocks(
      {{.number = 1, .share = 0.25}, {.number = 2, .share = 1}, {.number = 3}});
  EXPECT_DOUBLE_EQ(1.25 * kInterval, snapshot().native_heap().resident.bytes());
  pipeline_.note_native_blocks({{.number = 1, .share = 0.5}, {.number = 2, .share = 0.5}});
  EXPECT_DOUBLE_EQ(kInterval, snapshot().native_heap().resident.bytes());
  EXPECT_EQ(2u, snapshot().native_heap().resident.samples);
  free(1);
  EXPECT_DOUBLE_EQ(0.5 * kInterval, snapshot().native_heap().resident.bytes());
  free(2);
  EXPECT_DOUBLE_EQ(0, snapshot().native_heap().resident.bytes());
}

TEST_F(NativeHeapTest, ABlockThatIsMissingTwiceHasBeenFreed) {
  alloc(1, 1000);
  alloc(2, 1000);
  pipeline_.note_native_blocks({{.number = 1, .gone = true}, {.number = 2, .gone = true}});
  EXPECT_DOUBLE_EQ(2 * kInterval, snapshot().native_heap().live.bytes()) << "one may have erred";
  pipeline_.note_native_blocks({{.number = 1, .gone = true}, {.number = 2, .share = 1}});
  EXPECT_DOUBLE_EQ(kInterval, snapshot().native_heap().live.bytes());
  EXPECT_EQ(1u, dropped(Drop::kFollowNativeFreeMissed));
  pipeline_.note_native_blocks({{.number = 2, .gone = true}});
  EXPECT_DOUBLE_EQ(kInterval, snapshot().native_heap().live.bytes());
  free(1);  // the agent finds its address taken again
  EXPECT_EQ(0u, dropped(Drop::kFollowUnknownSample));
  free(1);
  EXPECT_EQ(1u, dropped(Drop::kFollowUnknownSample));
}

TEST_F(NativeHeapTest, ForgottenBlocksAreNotResident) {
  alloc(1, 1000);
  pipeline_.note_native_blocks({{.number = 1, .share = 1}});
  block({.id = 2, .bytes = 1000, .n_samples = 1, .lost = 1});
  EXPECT_DOUBLE_EQ(0, snapshot().native_heap().resident.bytes());
  ASSERT_EQ(1u, pipeline_.aggregator().native_blocks().size());
  EXPECT_EQ(2u, pipeline_.aggregator().native_blocks()[0].number);
}

TEST_F(NativeHeapTest, TheAddressesOfBlocksAreKnown) {
  block({.id = 7, .bytes = 1000, .n_samples = 1, .address = 0x5000});
  const std::vector<NativeBlock> blocks = pipeline_.aggregator().native_blocks();
  ASSERT_EQ(1u, blocks.size());
  EXPECT_EQ(0x5000u, blocks[0].address);
  EXPECT_EQ(1000u, blocks[0].bytes);
}

class NoNativeHeapTest : public NativeHeapTest {
 protected:
  NoNativeHeapTest() : NativeHeapTest(0) {}
};

TEST_F(NoNativeHeapTest, NobodyHasAskedForThem) {
  alloc(1, 1000);
  EXPECT_TRUE(snapshot().rows.empty());
  EXPECT_EQ(1u, dropped(Drop::kDecodeBadKind));
}

}  // namespace
}  // namespace memprofd
