// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/kit/fake_events.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::numbered_chunk;
using ::testing::SizeIs;

constexpr std::size_t kAll = 1 << 30;

// An event's sample_id is its number.
std::vector<std::uint64_t> numbers(const EventRead& read) {
  std::vector<std::uint64_t> result;
  for (const EventSlice& slice : read.slices) {
    for (const SampleEvent& event : slice.events()) result.push_back(event.record.sample_id);
  }
  return result;
}

std::vector<std::uint64_t> from_to(std::uint64_t first, std::uint64_t end) {
  std::vector<std::uint64_t> result(end - first);
  std::iota(result.begin(), result.end(), first);
  return result;
}

class EventLogTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kMaxEvents = 10;

  EventReader reader(const std::optional<EventCursor>& cursor = {}) {
    auto reader = EventReader::open(log_, cursor);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }
  static EventRead read(EventReader& reader, std::size_t max_events = kAll) {
    return reader.read(max_events, milliseconds(0));
  }
  EventCursor at(std::uint64_t number) const { return {log_->id(), number}; }
  // Chunks of two events each, numbered [first, end).
  void append(std::uint64_t first, std::uint64_t end) {
    for (; first < end; first += 2) log_->append(numbered_chunk(first, 2));
  }

  std::uint64_t now_ns_ = 1'000'000'000;
  std::shared_ptr<EventLog> log_ =
      std::make_shared<EventLog>(EventLogOptions{.max_events = kMaxEvents,
                                                 .kept_after_last_reader = std::chrono::seconds(60),
                                                 .now_ns = [this] { return now_ns_; }});
};

TEST_F(EventLogTest, GivesEveryEventInOrder) {
  EventReader reads = reader();
  log_->begin(0);
  append(0, 4);
  EXPECT_EQ(numbers(read(reads)), from_to(0, 4));
  EXPECT_THAT(numbers(read(reads)), IsEmpty());
  append(4, 8);
  const EventRead second = read(reads);
  EXPECT_EQ(numbers(second), from_to(4, 8));
  EXPECT_EQ(second.dropped, 0u);
  EXPECT_EQ(second.next, at(8));
  EXPECT_FALSE(second.ended);
}

TEST_F(EventLogTest, StartsWithTheNextEvent) {
  EventReader first = reader();
  EXPECT_FALSE(read(first).next) << "nobody records yet";
  log_->begin(900);
  EXPECT_EQ(read(first).next, at(900));
  append(900, 904);
  EventReader second = reader();
  EXPECT_EQ(read(second).next, at(904));
  append(904, 906);
  EXPECT_EQ(numbers(read(second)), from_to(904, 906));
  EXPECT_EQ(numbers(read(first)), from_to(900, 906));
}

TEST_F(EventLogTest, AReaderThatWaitedForRecordingMissesNothing) {
  EventReader late = reader();
  log_->begin(900);
  append(900, 920);
  const EventRead seen = read(late);
  EXPECT_EQ(seen.dropped, 10u);
  EXPECT_EQ(numbers(seen), from_to(910, 920));
}

TEST_F(EventLogTest, KeepsALimitedNumberOfEventsAndCountsTheRest) {
  EventReader slow = reader();
  log_->begin(0);
  append(0, 100);
  const EventRead seen = read(slow);
  EXPECT_EQ(numbers(seen), from_to(90, 100));
  EXPECT_EQ(seen.dropped, 90u);
  EXPECT_EQ(read(slow).dropped, 0u) << "told once";
}

TEST_F(EventLogTest, KeepsALimitedNumberOfChunks) {
  log_ = std::make_shared<EventLog>(EventLogOptions{.max_chunks = 3});
  EventReader reads = reader();
  log_->begin(0);
  append(0, 20);
  const EventRead seen = read(reads);
  EXPECT_EQ(numbers(seen), from_to(14, 20));
  EXPECT_EQ(seen.dropped, 14u);
}

TEST_F(EventLogTest, KeepsTheLastChunkHoweverLarge) {
  EventReader reads = reader();
  log_->begin(0);
  append(0, 4);
  log_->append(numbered_chunk(4, 100));
  EXPECT_EQ(numbers(read(reads)), from_to(4, 104));
}

TEST_F(EventLogTest, ReadersAtTheirOwnPace) {
  EventReader fast = reader();
  EventReader slow = reader();
  log_->begin(0);
  std::vector<std::uint64_t> all;
  for (std::uint64_t first = 0; first < 40; first += 4) {
    append(first, first + 4);
    const auto seen = numbers(read(fast));
    all.insert(all.end(), seen.begin(), seen.end());
  }
  EXPECT_EQ(all, from_to(0, 40));
  const EventRead seen = read(slow);
  EXPECT_EQ(seen.dropped, 30u);
  EXPECT_EQ(numbers(seen), from_to(30, 40));
}

TEST_F(EventLogTest, ReadsInPortionsOfWholeChunks) {
  EventReader reads = reader();
  log_->begin(0);
  append(0, 10);
  EXPECT_EQ(numbers(read(reads, 3)), from_to(0, 4));
  const EventRead second = read(reads, 4);
  EXPECT_EQ(numbers(second), from_to(4, 8));
  EXPECT_EQ(second.next, at(8));
  EXPECT_EQ(numbers(read(reads)), from_to(8, 10));
}

TEST_F(EventLogTest, ResumesWithinAChunk) {
  {
    EventReader before = reader();
    log_->begin(0);
    log_->append(numbered_chunk(0, 5));
  }
  log_->append(numbered_chunk(5, 5));
  EventReader again = reader(at(3));
  const EventRead seen = read(again);
  EXPECT_EQ(seen.dropped, 0u);
  EXPECT_EQ(numbers(seen), from_to(3, 10));
  ASSERT_THAT(seen.slices, SizeIs(2));
  EXPECT_EQ(seen.slices[0].first(), 3u);
  EXPECT_EQ(seen.slices[1].first(), 5u);
}

TEST_F(EventLogTest, AnOldCursorGetsTheCountOfEverythingBetween) {
  {
    EventReader before = reader();
    log_->begin(0);
    append(0, 4);
    read(before);
  }
  now_ns_ += 61'000'000'000;
  EXPECT_FALSE(log_->wanted());
  EXPECT_TRUE(log_->stop());
  EventReader again = reader(at(4));
  EXPECT_EQ(read(again).dropped, 0u) << "what has gone by is not known yet";
  log_->begin(1000);
  append(1000, 1002);
  const EventRead seen = read(again);
  EXPECT_EQ(seen.dropped, 996u);
  EXPECT_EQ(numbers(seen), from_to(1000, 1002));
}

TEST_F(EventLogTest, RefusesForeignCursors) {
  log_->begin(0);
  append(0, 4);
  const EventCursor foreign[] = {{log_->id() + 1, 2}, {0, 0}, at(5)};
  for (const EventCursor& cursor : foreign) {
    const auto refused = EventReader::open(log_, cursor);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("without a cursor"));
  }
  EXPECT_FALSE(log_->wanted()) << "a refused reader is none";
  EXPECT_TRUE(EventReader::open(log_, at(4)).ok());
  EXPECT_NE(EventLog().id(), EventLog().id());
}

TEST_F(EventLogTest, IsWantedDuringAndShortlyAfterReaders) {
  EXPECT_FALSE(log_->wanted());
  {
    const EventReader first = reader();
    EXPECT_TRUE(log_->wanted());
    {
      const EventReader second = reader();
      now_ns_ += 100'000'000'000;
    }
    now_ns_ += 100'000'000'000;
    EXPECT_TRUE(log_->wanted()) << "the first still reads";
    EXPECT_FALSE(log_->stop());
  }
  now_ns_ += 59'999'999'999;
  EXPECT_TRUE(log_->wanted());
  now_ns_ += 1;
  EXPECT_FALSE(log_->wanted());
}

TEST_F(EventLogTest, AMovedReaderLeavesOnce) {
  {
    EventReader first = reader();
    const EventReader second = std::move(first);
    EXPECT_TRUE(log_->wanted());
  }
  const EventReader other = reader();
  EXPECT_FALSE(log_->stop());
}

TEST_F(EventLogTest, StoppingReleasesTheEvents) {
  std::weak_ptr<const EventChunk> kept;
  {
    EventReader reads = reader();
    log_->begin(0);
    EventChunkPtr chunk = numbered_chunk(0, 2);
    kept = chunk;
    log_->append(std::move(chunk));
  }
  EXPECT_FALSE(kept.expired());
  EXPECT_TRUE(log_->stop());
  EXPECT_TRUE(kept.expired());
}

TEST_F(EventLogTest, AfterTheEndReadersGetTheRest) {
  EventReader early = reader();
  log_->begin(0);
  append(0, 6);
  EventReader present = reader(at(2));
  log_->close();
  const EventRead part = read(early, 2);
  EXPECT_EQ(numbers(part), from_to(0, 2));
  EXPECT_FALSE(part.ended);
  const EventRead rest = read(early);
  EXPECT_EQ(numbers(rest), from_to(2, 6));
  EXPECT_TRUE(rest.ended);
  EXPECT_EQ(numbers(read(present)), from_to(2, 6));

  EventReader late = reader();
  const EventRead nothing = read(late);
  EXPECT_TRUE(nothing.ended);
  EXPECT_EQ(nothing.next, at(6));
  EventReader resumed = reader(at(4));
  EXPECT_EQ(numbers(read(resumed)), from_to(4, 6));
}

TEST_F(EventLogTest, EndBeforeTheFirstReadLosesNothing) {
  EventReader late = reader();
  log_->begin(7);
  log_->append(numbered_chunk(7, 2));
  log_->close();
  const EventRead seen = read(late);
  EXPECT_EQ(numbers(seen), from_to(7, 9));
  EXPECT_TRUE(seen.ended);
}

TEST_F(EventLogTest, ALogThatNeverRecordedEnds) {
  EventReader reads = reader();
  log_->close();
  const EventRead seen = read(reads);
  EXPECT_TRUE(seen.ended);
  EXPECT_TRUE(seen.next);
}

TEST_F(EventLogTest, AWaitEndsWithItsEvent) {
  EventReader reads = reader();
  const auto long_time = std::chrono::minutes(5);
  std::thread writer([this] { log_->begin(3); });
  EXPECT_EQ(reads.read(kAll, long_time).next, at(3));
  writer.join();
  writer = std::thread([this] { log_->append(numbered_chunk(3, 1)); });
  EXPECT_EQ(numbers(reads.read(kAll, long_time)), from_to(3, 4));
  writer.join();
  writer = std::thread([this] { log_->close(); });
  EXPECT_TRUE(reads.read(kAll, long_time).ended);
  writer.join();
}

TEST_F(EventLogTest, FindsTheClassesOfAChunk) {
  EventChunk chunk;
  chunk.classes = {{ClassId(2), {}, nullptr}, {ClassId(5), {}, nullptr}, {ClassId(9), {}, nullptr}};
  for (const std::uint32_t id : {2u, 5u, 9u}) {
    ASSERT_NE(chunk.find(ClassId(id)), nullptr);
    EXPECT_EQ(chunk.find(ClassId(id))->id, ClassId(id));
  }
  for (const std::uint32_t id : {0u, 3u, 10u}) EXPECT_EQ(chunk.find(ClassId(id)), nullptr);
}

// Each reader accounts for every event from its start to the end.
TEST(EventLogThreads, NothingIsLostUncounted) {
  constexpr std::uint64_t kEvents = 200'000;
  constexpr std::size_t kChunk = 20;
  const auto log = std::make_shared<EventLog>(EventLogOptions{.max_events = 1000});
  log->begin(0);
  const auto follow = [&](std::size_t portion) {
    auto reader = EventReader::open(log);
    EventRead first = reader->read(1, milliseconds(0));
    // The reader's begin; the writer may have been faster.
    std::uint64_t expected = first.next->next_event - numbers(first).size() - first.dropped;
    for (EventRead read = std::move(first);; read = reader->read(portion, milliseconds(1000))) {
      expected += read.dropped;
      for (const std::uint64_t number : numbers(read)) {
        if (number != expected++) return false;
      }
      if (read.ended) return expected == kEvents;
      if (portion == 1) std::this_thread::yield();
    }
  };
  bool right[3] = {};
  std::thread readers[] = {std::thread([&] { right[0] = follow(4096); }),
                           std::thread([&] { right[1] = follow(1); }), std::thread([&] {
                             // Comes and goes.
                             right[2] = true;
                             std::optional<EventCursor> cursor;
                             for (bool ended = false; !ended;) {
                               auto reader = EventReader::open(log, cursor);
                               const EventRead read = reader->read(100, milliseconds(1000));
                               ended = read.ended;
                               if (cursor) {
                                 const std::uint64_t seen = numbers(read).size() + read.dropped;
                                 right[2] =
                                     right[2] && cursor->next_event + seen == read.next->next_event;
                               }
                               cursor = read.next;
                             }
                           })};
  for (std::uint64_t first = 0; first < kEvents; first += kChunk) {
    log->append(numbered_chunk(first, kChunk));
  }
  log->close();
  for (std::thread& reader : readers) reader.join();
  EXPECT_THAT(right, ElementsAre(true, true, true));
}

}  // namespace
}  // namespace memprofd
