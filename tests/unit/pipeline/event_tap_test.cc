// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/event_tap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/ring_events.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

constexpr double kRate = 0.01;

class EventTapTest : public ::testing::Test {
 protected:
  EventTapTest() { session(1, kRate); }

  void session(std::uint32_t generation, double rate) {
    generation_ = generation;
    pipeline_.begin_session(generation, rate);
    batch({});
  }
  // An allocation by OCaml code with that callstack.
  memprof_record alloc(std::uint64_t id, std::uint64_t stack) {
    pipeline_.on_ring_record(ring_capture({.header = {.tid = 7, .time_ns = 10 * id - 1},
                                           .stack_id = stack,
                                           .alloc_idx = 0,
                                           .n_frames = 1},
                                          {stack * 16})
                                 .bytes());
    return sample_record(10 * id, id, MEMPROF_ALLOC_MINOR, 1);
  }
  void batch(const std::vector<memprof_record>& records) {
    const std::uint64_t time = records.empty() ? 1 : records.back().time_ns + 1;
    pipeline_.on_ring_record(
        ring_batch({.header = {.time_ns = time}, .first_seq = seq_, .generation = generation_},
                   records)
            .bytes());
    seq_ += records.size();
  }
  void batch_of(std::uint64_t first_id, std::uint64_t count) {
    std::vector<memprof_record> records;
    for (std::uint64_t id = first_id; id < first_id + count; ++id) records.push_back(alloc(id, 1));
    batch(records);
  }
  EventReader reader() { return *EventReader::open(log_); }
  static EventRead read(EventReader& reader) { return reader.read(1 << 20, milliseconds(0)); }

  // Allocation of a native block, or a free if there are no bytes.
  void native_block(std::uint64_t id, std::uint64_t bytes, std::uint64_t lost = 0) {
    memprof_c_block block{.id = id, .bytes = bytes, .n_samples = bytes > 0 ? 1u : 0u};
    block.header = {.kind = MEMPROF_EVENT_C_BLOCK, .tid = 9, .time_ns = 1000 + id};
    block.generation = 1;
    block.lost = lost;
    pipeline_.on_ring_record(RingRecord(&block, sizeof block, nullptr, 0).bytes());
  }

  std::uint64_t now_ns_ = 1;
  Pipeline pipeline_{{.native_heap_rate = 1e-4}};
  std::shared_ptr<EventLog> log_ =
      std::make_shared<EventLog>(EventLogOptions{.now_ns = [this] { return now_ns_; }});
  EventTap tap_{pipeline_, log_};
  std::uint32_t generation_ = 0;
  std::uint64_t seq_ = 0;
};

TEST_F(EventTapTest, ChunksHaveEventsRateAndClasses) {
  EventReader reads = reader();
  tap_.update();
  batch({alloc(1, 5), alloc(2, 6), alloc(3, 5), sample_record(35, 1, MEMPROF_PROMOTE),
         sample_record(50, 2, MEMPROF_DEALLOC_MINOR)});
  tap_.flush();
  const EventRead seen = read(reads);
  ASSERT_EQ(seen.slices.size(), 1u);
  const EventChunk& chunk = *seen.slices[0].chunk;
  EXPECT_EQ(chunk.first, 0u);
  EXPECT_EQ(chunk.rate, kRate);
  ASSERT_EQ(chunk.events.size(), 5u);
  EXPECT_EQ(chunk.events[3].record.sample_id, 1u);
  EXPECT_EQ(chunk.events[3].alloc_time_ns, 10u);
  EXPECT_EQ(chunk.events[3].alloc_class, chunk.events[0].alloc_class);
  ASSERT_EQ(chunk.classes.size(), 2u) << "each class once";
  EXPECT_LT(chunk.classes[0].id, chunk.classes[1].id);
  const auto stack = [&](int event) {
    return chunk.find(chunk.events[event].alloc_class)->callstack->hash.value();
  };
  EXPECT_EQ(stack(0), 5u);
  EXPECT_EQ(stack(1), 6u);
  EXPECT_EQ(stack(4), 6u);
  EXPECT_EQ(chunk.find(chunk.events[0].alloc_class)->alloc_class.thread, 7u);
}

TEST_F(EventTapTest, EventsOfCsMemoryAreAmongThemInOrder) {
  native_block(1, 100);  // no reader yet
  EventReader reads = reader();
  tap_.update();
  batch({alloc(1, 5)});
  native_block(2, 1000);
  native_block(1, 0);
  batch({alloc(2, 5)});
  native_block(2, 0);
  tap_.flush();
  const EventRead seen = read(reads);
  ASSERT_EQ(seen.slices.size(), 1u) << "they do not cut chunks";
  const EventChunk& chunk = *seen.slices[0].chunk;
  EXPECT_EQ(chunk.first, 1u) << "the numbers count them";
  EXPECT_EQ(chunk.rate, kRate);
  EXPECT_EQ(chunk.native_rate, 1e-4);
  std::vector<bool> of_c;
  for (const SampleEvent& event : chunk.events) of_c.push_back(event.of_c());
  EXPECT_THAT(of_c, ElementsAre(false, true, true, false, true));
  const SampleEvent& taken = chunk.events[1];
  EXPECT_EQ(taken.record.size_words, 125u);
  EXPECT_EQ(taken.bytes_short, 0);
  EXPECT_EQ(chunk.find(taken.alloc_class)->alloc_class.heap_kind(), HeapKind::kC);
  const SampleEvent& freed = chunk.events[4];
  EXPECT_EQ(freed.record.sample_id, taken.record.sample_id);
  EXPECT_EQ(freed.alloc_class, taken.alloc_class);
  EXPECT_EQ(freed.alloc_time_ns, 1002u);
  EXPECT_EQ(MEMPROF_ORIGIN_TID(freed.record.origin), 9u);
  EXPECT_NE(chunk.events[0].record.sample_id, chunk.events[2].record.sample_id)
      << "numbers of C's blocks are none of OCaml's";
}

TEST_F(EventTapTest, ABlockOfCsMemoryThatIsFoundGoneEndsOnce) {
  EventReader reads = reader();
  tap_.update();
  native_block(1, 1000);
  pipeline_.note_native_blocks({{.number = 1, .gone = true}});
  pipeline_.note_native_blocks({{.number = 1, .gone = true}});
  native_block(1, 0);  // the agent finds its address taken again
  tap_.flush();
  const EventRead seen = read(reads);
  ASSERT_EQ(seen.slices.size(), 1u);
  const EventChunk& chunk = *seen.slices[0].chunk;
  ASSERT_EQ(chunk.events.size(), 2u);
  EXPECT_EQ(MEMPROF_ORIGIN_KIND(chunk.events[1].record.origin), MEMPROF_DEALLOC_MAJOR);
  EXPECT_EQ(chunk.events[1].alloc_class, chunk.events[0].alloc_class);
  EXPECT_EQ(MEMPROF_ORIGIN_TID(chunk.events[1].record.origin), 0u);
}

TEST_F(EventTapTest, LostNativeEventsAreReportedSeparately) {
  native_block(1, 100, 50);
  EventReader reads = reader();
  tap_.update();
  native_block(2, 100, 50);
  native_block(3, 100, 53);
  tap_.flush();
  EventRead seen = read(reads);
  EXPECT_EQ(seen.lost, EventLosses()) << "not what nobody asked for";
  seen = read(reads);
  EXPECT_EQ(seen.lost, (EventLosses{.native_events = 3}));
  // Drops that the kernel reports itself are not reported twice; the agent drops blocks, too.
  pipeline_.drops().set(Drop::kKernelNativeEventLost, 55);
  native_block(4, 100, 55);
  pipeline_.drops().set(Drop::kAgentNativeBlocksFull, 7);
  tap_.close();
  seen = read(reads);
  EXPECT_TRUE(seen.ended);
  EXPECT_EQ(seen.lost, (EventLosses{.native_events = 2 + 7}));
}

TEST_F(EventTapTest, ManyEventsOfCsMemoryAreSeveralChunks) {
  EventReader reads = reader();
  tap_.update();
  for (std::uint64_t id = 1; id <= 1100; ++id) native_block(id, 100);
  tap_.flush();
  std::vector<std::size_t> sizes;
  for (const EventSlice& slice : read(reads).slices) sizes.push_back(slice.events().size());
  EXPECT_THAT(sizes, ElementsAre(512, 512, 76));
}

TEST_F(EventTapTest, EveryChunkHasItsOwnClasses) {
  EventReader reads = reader();
  tap_.update();
  batch({alloc(1, 5)});
  tap_.flush();
  batch({sample_record(35, 1, MEMPROF_PROMOTE), sample_record(40, 99, MEMPROF_PROMOTE)});
  tap_.flush();
  const EventRead seen = read(reads);
  ASSERT_EQ(seen.slices.size(), 2u);
  const EventChunk& second = *seen.slices[1].chunk;
  EXPECT_EQ(second.first, 1u);
  ASSERT_EQ(second.classes.size(), 2u);
  EXPECT_EQ(second.classes[0].id, ClassId()) << "that of a block that is not followed";
  EXPECT_TRUE(second.classes[0].callstack->entries.empty());
  EXPECT_EQ(second.classes[1].callstack->hash, StackHash(5));
}

TEST_F(EventTapTest, NobodyReadsNothingIsKept) {
  tap_.update();
  batch_of(1, 100);
  tap_.flush();
  EventReader reads = reader();
  tap_.update();
  batch_of(101, 3);
  tap_.flush();
  const EventRead seen = read(reads);
  ASSERT_EQ(seen.slices.size(), 1u);
  EXPECT_EQ(seen.slices[0].first(), 100u) << "the numbers count all events";
  EXPECT_EQ(seen.dropped, 0u);
}

// Five records before the first event, three between two and four behind the last one.
TEST_F(EventTapTest, LostRecordsAreReportedWhereTheyAreMissing) {
  seq_ += 100;
  batch_of(1, 1);
  EventReader reads = reader();
  tap_.update();
  seq_ += 5;
  batch_of(2, 2);
  seq_ += 3;
  batch_of(4, 1);
  tap_.flush();
  EventRead seen = read(reads);
  EXPECT_EQ(seen.lost.records, 5u) << "not the 100 that nobody asked for";
  ASSERT_EQ(seen.slices.size(), 1u) << "as far as the next hole";
  EXPECT_EQ(seen.slices[0].events().size(), 2u);
  seen = read(reads);
  EXPECT_EQ(seen.lost.records, 3u);
  ASSERT_EQ(seen.slices.size(), 1u);
  EXPECT_EQ(seen.slices[0].events().size(), 1u);
  EXPECT_EQ(seen.dropped, 0u) << "the reader was not too slow";
  pipeline_.on_reached(0, {.records = seq_ + 4, .sampled = 8});
  tap_.close();
  seen = read(reads);
  EXPECT_TRUE(seen.ended);
  EXPECT_EQ(seen.lost.records, 4u);
}

TEST_F(EventTapTest, ALateReaderLearnsWhatItMissed) {
  std::optional<EventCursor> cursor;
  {
    EventReader reads = reader();
    tap_.update();
    batch_of(1, 10);
    tap_.flush();
    cursor = read(reads).next;
  }
  now_ns_ += 59'000'000'000;
  tap_.update();
  batch_of(11, 10);  // still recorded
  tap_.flush();
  now_ns_ += 1'000'000'000;
  tap_.update();
  batch_of(21, 10);  // not any more
  tap_.flush();
  auto again = EventReader::open(log_, cursor);
  tap_.update();
  batch_of(31, 10);
  tap_.flush();
  const EventRead seen = read(*again);
  EXPECT_EQ(seen.dropped, 20u);
  ASSERT_EQ(seen.slices.size(), 1u);
  EXPECT_EQ(seen.slices[0].first(), 30u);
}

TEST_F(EventTapTest, SmallBatchesAreOneChunkLargeOnesSeveral) {
  EventReader reads = reader();
  tap_.update();
  for (int i = 0; i < 4; ++i) batch_of(1 + 300 * i, 300);
  tap_.flush();
  batch_of(1201, 1);
  tap_.flush();
  std::vector<std::size_t> sizes;
  for (const EventSlice& slice : read(reads).slices) sizes.push_back(slice.events().size());
  EXPECT_THAT(sizes, ElementsAre(600, 600, 1));
}

TEST_F(EventTapTest, AChunkHasOneRate) {
  EventReader reads = reader();
  tap_.update();
  batch_of(1, 2);
  session(2, 0.5);
  batch_of(3, 3);
  tap_.flush();
  const EventRead seen = read(reads);
  ASSERT_EQ(seen.slices.size(), 2u);
  EXPECT_EQ(seen.slices[0].chunk->rate, kRate);
  EXPECT_EQ(seen.slices[0].events().size(), 2u);
  EXPECT_EQ(seen.slices[1].chunk->rate, 0.5);
  EXPECT_EQ(seen.slices[1].events().size(), 3u);
}

TEST_F(EventTapTest, CloseDeliversTheRestAndReleasesItLater) {
  std::weak_ptr<const EventChunk> kept;
  {
    EventReader reads = reader();
    tap_.update();
    batch_of(1, 2);
    tap_.close();
    const EventRead seen = read(reads);
    EXPECT_TRUE(seen.ended);
    ASSERT_EQ(seen.slices.size(), 1u);
    kept = seen.slices[0].chunk;
  }
  tap_.update();
  EXPECT_FALSE(kept.expired());
  now_ns_ += 60'000'000'000;
  tap_.update();
  EXPECT_TRUE(kept.expired());
}

}  // namespace
}  // namespace memprofd
