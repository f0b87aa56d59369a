// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "daemon/util/clock.h"
#include "tests/kit/fake_events.h"
#include "tests/kit/fake_service.h"

namespace memprofd {
namespace {

using ::testing::ElementsAre;
using testing::event_class;
using testing::fixed_symbolizer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::sample_event;
using ::testing::SizeIs;

constexpr std::uint64_t kLog = 77;
constexpr std::uint64_t kSecond = 1'000'000'000;

// Event classes with callstacks of fixed_symbolizer(). Class 1: Sessions.remember, called by
// Request.handle. Class 2: Parser.token, unmarshalled into the major heap by thread 8. Class 3:
// Cache.fill, called by Request.handle, large, in domain 1.
std::vector<EventClass> classes() {
  return {event_class(0, {}), event_class(1, {1, 4, 5}, {.thread = 7, .size = SizeBucket::of(3)}),
          event_class(2, {2, 5},
                      {.thread = 8,
                       .size = SizeBucket::of(10),
                       .heap = Heap::kMajor,
                       .source = Source::kMarshal}),
          event_class(3, {3, 4, 5}, {.thread = 7, .domain = 1, .size = SizeBucket::of(1000)})};
}

// The life of one block per class; the block of class n is n. Block 9 is not followed.
std::vector<SampleEvent> lives() {
  return {sample_event(1, MEMPROF_ALLOC_MINOR, ClassId(1), 1 * kSecond, 1 * kSecond),
          sample_event(2, MEMPROF_ALLOC_MAJOR, ClassId(2), 2 * kSecond, 2 * kSecond),
          sample_event(3, MEMPROF_ALLOC_MINOR, ClassId(3), 3 * kSecond, 3 * kSecond),
          sample_event(3, MEMPROF_PROMOTE, ClassId(3), 4 * kSecond, 3 * kSecond),
          sample_event(1, MEMPROF_DEALLOC_MINOR, ClassId(1), 4 * kSecond, 1 * kSecond),
          sample_event(2, MEMPROF_DEALLOC_MAJOR, ClassId(2), 4 * kSecond, 2 * kSecond),
          sample_event(3, MEMPROF_DEALLOC_MAJOR, ClassId(3), 4 * kSecond, 3 * kSecond),
          sample_event(9, MEMPROF_PROMOTE, ClassId(), 5 * kSecond),
          sample_event(9, MEMPROF_DEALLOC_MAJOR, ClassId(), 6 * kSecond)};
}

EventRead read_of(std::vector<SampleEvent> events, std::uint64_t first = 100, double rate = 1e-3) {
  auto chunk = std::make_shared<EventChunk>();
  chunk->first = first;
  chunk->events = std::move(events);
  chunk->rate = rate;
  chunk->classes = classes();
  const std::uint64_t end = chunk->end();
  return {.slices = {{std::move(chunk)}}, .next = EventCursor{kLog, end}};
}

EventRead nothing(std::uint64_t next) { return {.next = EventCursor{kLog, next}}; }

// "block kind" of each event of all messages.
std::vector<std::string> words(const std::vector<pb::StreamEventsResponse>& messages) {
  std::vector<std::string> result;
  for (const auto& message : messages) {
    for (const pb::SampleEvent& event : message.events()) {
      std::string kind = pb::EventKind_Name(event.kind());
      kind.erase(0, std::string("EVENT_KIND_").size());
      result.push_back(absl::StrCat(event.block(), " ", kind));
    }
  }
  return result;
}

// The blocks that show any event.
std::vector<std::uint64_t> blocks(const std::vector<pb::StreamEventsResponse>& messages) {
  std::vector<std::uint64_t> result;
  for (const auto& message : messages) {
    for (const pb::SampleEvent& event : message.events()) result.push_back(event.block());
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

class Streamed {
 public:
  explicit Streamed(const pb::StreamEventsRequest& request = {}, EventStreamLimits limits = {})
      : stream_(*event_query(request), fixed_symbolizer(), limits) {}

  // The messages made of it.
  std::vector<pb::StreamEventsResponse> put(const EventRead& read) {
    std::vector<pb::StreamEventsResponse> messages;
    EXPECT_TRUE(stream_.put(read, [&](const auto& message) {
      messages.push_back(message);
      return true;
    }));
    return messages;
  }
  EventStream& stream() { return stream_; }

 private:
  EventStream stream_;
};

std::vector<pb::StreamEventsResponse> stream(const pb::StreamEventsRequest& request) {
  return Streamed(request).put(read_of(lives()));
}

std::vector<std::uint64_t> blocks_that_pass(const std::function<void(pb::Filter&)>& set) {
  pb::StreamEventsRequest request;
  set(*request.mutable_filter());
  return blocks(stream(request));
}

// ---------------------------------------------------------------- contents

TEST(EventStream, ReportsWhatIsKnownAboutEachEvent) {
  const auto messages = stream({});
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_THAT(words(messages), ElementsAre("1 ALLOC_MINOR", "2 ALLOC_MAJOR", "3 ALLOC_MINOR",
                                           "3 PROMOTE", "1 DEALLOC_MINOR", "2 DEALLOC_MAJOR",
                                           "3 DEALLOC_MAJOR", "9 PROMOTE", "9 DEALLOC_MAJOR"));
  EXPECT_EQ(messages[0].sampling_rate(), 1e-3);
  EXPECT_EQ(messages[0].cursor().log(), kLog);
  EXPECT_EQ(messages[0].cursor().next_event(), 109u);
  EXPECT_EQ(messages[0].dropped_events(), 0u);

  const pb::SampleEvent& death = messages[0].events(5);
  EXPECT_EQ(death.size_words(), 10u);
  EXPECT_EQ(death.source(), pb::BLOCK_SOURCE_MARSHAL);
  EXPECT_EQ(death.n_samples(), 1u);
  EXPECT_EQ(death.thread(), 7u) << "of the callback";
  EXPECT_EQ(death.callstack_id(), 2u);
  EXPECT_DOUBLE_EQ(death.lifetime_seconds(), 2);
  const pb::SampleEvent& promotion = messages[0].events(3);
  EXPECT_EQ(promotion.domain(), 1u);
  EXPECT_NEAR(static_cast<double>(promotion.size_words()), 1000, 32);
  EXPECT_EQ(promotion.lifetime_seconds(), 0);
  const pb::SampleEvent& unknown = messages[0].events(8);
  EXPECT_EQ(unknown.callstack_id(), 0u);
  EXPECT_EQ(unknown.size_words(), 0u);
  EXPECT_EQ(unknown.source(), pb::BLOCK_SOURCE_UNSPECIFIED);
  EXPECT_EQ(unknown.lifetime_seconds(), 0);
}

TEST(EventStream, AllocationsHaveTheirExactSizeAndSource) {
  SampleEvent event = sample_event(1, MEMPROF_ALLOC_MAJOR, ClassId(3));
  event.record.size_words = 1003;
  event.record.n_samples = 4;
  event.record.origin = MEMPROF_ORIGIN(12, MEMPROF_SOURCE_CUSTOM, MEMPROF_ALLOC_MAJOR);
  const auto messages = Streamed().put(read_of({event}));
  ASSERT_EQ(messages[0].events_size(), 1);
  EXPECT_EQ(messages[0].events(0).size_words(), 1003u);
  EXPECT_EQ(messages[0].events(0).n_samples(), 4u);
  EXPECT_EQ(messages[0].events(0).source(), pb::BLOCK_SOURCE_CUSTOM);
  EXPECT_EQ(messages[0].events(0).thread(), 12u);
}

TEST(EventStream, TimesAreUnixTimes) {
  const std::uint64_t monotonic = monotonic_ns();
  const auto messages =
      Streamed().put(read_of({sample_event(1, MEMPROF_ALLOC_MINOR, ClassId(1), monotonic)}));
  const std::int64_t off =
      messages[0].events(0).time_unix_ns() - static_cast<std::int64_t>(realtime_ns());
  EXPECT_LT(std::abs(off), 10 * static_cast<std::int64_t>(kSecond));
}

TEST(EventStream, CallstacksComeOnceBeforeTheirEvents) {
  pb::StreamEventsRequest request;
  Streamed sites(request);
  const auto first = sites.put(read_of(lives()));
  ASSERT_EQ(first[0].callstacks_size(), 3);
  EXPECT_EQ(first[0].callstacks(0).id(), 1u);
  ASSERT_EQ(first[0].callstacks(0).locations_size(), 1) << "only the site";
  EXPECT_EQ(first[0].callstacks(0).locations(0).function(), "Sessions.remember");
  EXPECT_EQ(first[0].callstacks(0).locations(0).line(), 27u);
  EXPECT_EQ(sites.put(read_of(lives(), 109))[0].callstacks_size(), 0) << "known by now";

  request.set_full_callstacks(true);
  const auto full = Streamed(request).put(read_of(lives()));
  ASSERT_EQ(full[0].callstacks(0).locations_size(), 3);
  EXPECT_EQ(full[0].callstacks(0).locations(2).function(), "Server.loop");
}

TEST(EventStream, ForgetsCallstacksWhenThereAreTooMany) {
  Streamed streamed({}, {.known_callstacks = 2});
  const auto first = streamed.put(read_of(lives()));
  // 1 and 2 fill it; 3 comes; then 1, forgotten; 2 again; 3 again.
  std::vector<std::uint64_t> sent;
  for (const auto& callstack : first[0].callstacks()) sent.push_back(callstack.id());
  EXPECT_THAT(sent, ElementsAre(1, 2, 3, 1, 2, 3));
}

// ---------------------------------------------------------------- messages

TEST(EventStream, MessagesAreBoundedAndEachHasItsCursor) {
  Streamed streamed({}, {.events = 4});
  const auto messages = streamed.put(read_of(lives()));
  ASSERT_THAT(messages, SizeIs(3));
  std::vector<std::uint64_t> cursors;
  std::vector<int> sizes;
  for (const auto& message : messages) {
    cursors.push_back(message.cursor().next_event());
    sizes.push_back(message.events_size());
    EXPECT_EQ(message.sampling_rate(), 1e-3);
  }
  EXPECT_THAT(cursors, ElementsAre(104, 108, 109));
  EXPECT_THAT(sizes, ElementsAre(4, 4, 1));
}

TEST(EventStream, CallstacksCountForTheSizeOfAMessage) {
  pb::StreamEventsRequest request;
  request.set_full_callstacks(true);
  const auto messages = Streamed(request, {.text_bytes = 100}).put(read_of(lives()));
  EXPECT_EQ(messages[0].callstacks_size(), 1);
  EXPECT_EQ(messages[0].events_size(), 1);
  EXPECT_EQ(blocks(messages), (std::vector<std::uint64_t>{1, 2, 3, 9}));
}

TEST(EventStream, AMessageHasOneRate) {
  EventRead read = read_of(lives(), 100, 1e-3);
  const EventRead more = read_of(lives(), 109, 0.5);
  read.slices.push_back(more.slices[0]);
  read.next = more.next;
  const auto messages = Streamed().put(read);
  ASSERT_THAT(messages, SizeIs(2));
  EXPECT_EQ(messages[0].sampling_rate(), 1e-3);
  EXPECT_EQ(messages[0].cursor().next_event(), 109u);
  EXPECT_EQ(messages[1].sampling_rate(), 0.5);
  EXPECT_EQ(messages[1].events_size(), 9);
}

TEST(EventStream, EventsBeforeTheCursorAreLeftOut) {
  EventRead read = read_of(lives());
  read.slices[0].skip = 7;
  const auto messages = Streamed().put(read);
  EXPECT_THAT(words(messages), ElementsAre("9 PROMOTE", "9 DEALLOC_MAJOR"));
  EXPECT_EQ(messages[0].cursor().next_event(), 109u);
}

TEST(EventStream, ReportsTheNumberOfDroppedEvents) {
  Streamed streamed;
  EventRead read = read_of(lives());
  read.dropped = 1234;
  const auto messages = streamed.put(read);
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].dropped_events(), 1234u);
  EXPECT_EQ(streamed.put(read_of(lives(), 109))[0].dropped_events(), 0u);
}

TEST(EventStream, ReportsTheNumberOfLostRecords) {
  Streamed streamed;
  EventRead read = read_of(lives());
  read.lost = {.records = 77, .native_events = 3};
  EXPECT_EQ(streamed.put(read)[0].lost_records(), 77u);
  EventRead nothing = read_of(lives(), 109);
  nothing.slices.clear();
  nothing.lost.records = 5;
  const auto messages = streamed.put(nothing);
  ASSERT_THAT(messages, SizeIs(1)) << "losses are always told";
  EXPECT_EQ(messages[0].lost_records(), 5u);
}

TEST(EventStream, TheNoticeIsInTheFirstOfSeveralMessages) {
  Streamed streamed({}, {.events = 4});
  EventRead read = read_of(lives());
  read.dropped = 5;
  const auto messages = streamed.put(read);
  ASSERT_THAT(messages, SizeIs(3));
  EXPECT_EQ(messages[0].dropped_events(), 5u);
  EXPECT_EQ(messages[1].dropped_events(), 0u);
}

TEST(EventStream, TheFirstMessageSaysThatTheStreamHasBegun) {
  Streamed streamed;
  EXPECT_THAT(streamed.put(EventRead{}), IsEmpty()) << "recording has not begun";
  const auto first = streamed.put(nothing(50));
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].cursor().next_event(), 50u);
  EXPECT_THAT(streamed.put(nothing(50)), IsEmpty()) << "nothing to say";
}

TEST(EventStream, NothingToSayNeedsNoMessageButACursorFromTimeToTime) {
  pb::StreamEventsRequest request;
  request.mutable_filter()->set_pattern("Nobody");
  Streamed streamed(request, {.silent_events = 20});
  EXPECT_THAT(streamed.put(read_of(lives(), 100)), SizeIs(1)) << "has begun";
  EXPECT_THAT(streamed.put(read_of(lives(), 109)), IsEmpty());
  EXPECT_THAT(streamed.put(read_of(lives(), 118)), IsEmpty());
  const auto cursor = streamed.put(read_of(lives(), 127));
  ASSERT_THAT(cursor, SizeIs(1));
  EXPECT_EQ(cursor[0].events_size(), 0);
  EXPECT_EQ(cursor[0].cursor().next_event(), 136u);

  EventRead dropped = nothing(200);
  dropped.dropped = 64;
  EXPECT_THAT(streamed.put(dropped), SizeIs(1)) << "losses are always told";
}

TEST(EventStream, EndsWhenTheClientHasGone) {
  Streamed streamed({}, {.events = 4});
  int sent = 0;
  EXPECT_FALSE(streamed.stream().put(read_of(lives()), [&](const auto&) { return ++sent < 2; }));
  EXPECT_EQ(sent, 2);
}

// ---------------------------------------------------------------- native heap

constexpr std::uint64_t kNativeBlock = std::uint64_t{1} << 63;  // among numbers of OCaml's blocks

SampleEvent native_event(std::uint64_t number, std::uint32_t kind, ClassId alloc_class,
                         std::uint64_t time_ns = kSecond) {
  SampleEvent event = sample_event(kNativeBlock | number, kind, alloc_class, time_ns, kSecond);
  event.record.origin = MEMPROF_ORIGIN(7, Source::kMalloc, kind);
  return event;
}

// Events of OCaml blocks, with those of two native blocks in between, and the free of a native
// block that was not followed.
EventRead both() {
  std::vector<SampleEvent> events = lives();
  SampleEvent taken = native_event(1, MEMPROF_ALLOC_MAJOR, ClassId(4));
  taken.record.size_words = 13;
  taken.bytes_short = 4;
  events.insert(events.begin() + 3,
                {taken, native_event(2, MEMPROF_ALLOC_MAJOR, ClassId(5)),
                 native_event(1, MEMPROF_DEALLOC_MAJOR, ClassId(4), 3 * kSecond),
                 native_event(9, MEMPROF_DEALLOC_MAJOR, ClassId())});
  EventRead read = read_of(std::move(events));
  auto chunk = std::make_shared<EventChunk>(*read.slices[0].chunk);
  chunk->native_rate = 1e-2;
  const AllocClass c{.domain = AllocClass::kAnyDomain,
                     .size = SizeBucket::of(13),
                     .heap = Heap::kMajor,
                     .source = Source::kMalloc};
  chunk->classes.push_back(event_class(4, {1, 4, 5}, c));
  chunk->classes.push_back(event_class(5, {2, 5}, c));
  read.slices[0].chunk = std::move(chunk);
  return read;
}

pb::StreamEventsRequest for_c() {
  pb::StreamEventsRequest request;
  request.mutable_filter()->set_heap(pb::BLOCK_HEAP_C);
  return request;
}

TEST(EventStreamOfC, IsInNoStreamOfOthers) {
  const auto without = Streamed().put(read_of(lives()));
  const auto with = Streamed().put(both());
  EXPECT_EQ(words(with), words(without));
  EXPECT_EQ(with[0].sampling_rate(), 1e-3);
  EXPECT_EQ(with[0].events(0).heap(), pb::BLOCK_HEAP_MINOR);
  EXPECT_EQ(with[0].events(5).heap(), pb::BLOCK_HEAP_MAJOR);
  EXPECT_EQ(with[0].events(0).size_bytes(), 0u);
  EXPECT_EQ(with[0].events(8).heap(), pb::BLOCK_HEAP_UNSPECIFIED) << "nothing is known of it";
}

TEST(EventStreamOfC, HasItAloneAtItsOwnRate) {
  const auto messages = Streamed(for_c()).put(both());
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_THAT(words(messages), ElementsAre("1 C_ALLOC", "2 C_ALLOC", "1 C_FREE", "9 C_FREE"));
  EXPECT_EQ(messages[0].sampling_rate(), 1e-2);
  EXPECT_EQ(messages[0].cursor().next_event(), 113u) << "those of others are passed by";
  const pb::SampleEvent& taken = messages[0].events(0);
  EXPECT_EQ(taken.heap(), pb::BLOCK_HEAP_C);
  EXPECT_EQ(taken.source(), pb::BLOCK_SOURCE_MALLOC);
  EXPECT_EQ(taken.size_words(), 13u);
  EXPECT_EQ(taken.size_bytes(), 100u);
  EXPECT_EQ(taken.domain(), 0u) << "not known";
  EXPECT_EQ(taken.callstack_id(), 4u);
  const pb::SampleEvent& freed = messages[0].events(2);
  EXPECT_EQ(freed.size_bytes(), 104u) << "to the word";
  EXPECT_DOUBLE_EQ(freed.lifetime_seconds(), 2);
  EXPECT_EQ(messages[0].events(3).heap(), pb::BLOCK_HEAP_C);

  pb::StreamEventsRequest by_source;
  by_source.mutable_filter()->set_source(pb::BLOCK_SOURCE_MALLOC);
  EXPECT_EQ(words(Streamed(by_source).put(both())), words(messages));
}

TEST(EventStreamOfC, ReportsItsOwnLosses) {
  EventRead read = both();
  read.lost = {.records = 77, .native_events = 3};
  EXPECT_EQ(Streamed(for_c()).put(read)[0].lost_records(), 3u);
}

TEST(EventStreamOfC, Filters) {
  pb::StreamEventsRequest request = for_c();
  request.add_kinds(pb::EVENT_KIND_C_FREE);
  request.add_kinds(pb::EVENT_KIND_ALLOC_MINOR);
  EXPECT_THAT(words(Streamed(request).put(both())), ElementsAre("1 C_FREE", "9 C_FREE"));
  request = for_c();
  request.mutable_filter()->set_pattern("Parser");
  EXPECT_THAT(words(Streamed(request).put(both())), ElementsAre("2 C_ALLOC"));
  request = for_c();
  request.mutable_filter()->set_min_lifetime_seconds(5);
  EXPECT_THAT(words(Streamed(request).put(both())), ElementsAre("1 C_ALLOC", "2 C_ALLOC"));
}

TEST(EventStreamOfC, KindsThatNoneOfItsEventsHasAreRefused) {
  pb::StreamEventsRequest request = for_c();
  request.add_kinds(pb::EVENT_KIND_PROMOTE);
  EXPECT_THAT(event_query(request).status().ToString(), HasSubstr("BLOCK_HEAP_C"));
  request.clear_filter();
  EXPECT_TRUE(event_query(request).ok());
  request.clear_kinds();
  request.add_kinds(pb::EVENT_KIND_C_ALLOC);
  EXPECT_THAT(event_query(request).status().ToString(), HasSubstr("BLOCK_HEAP_C"));
}

// ---------------------------------------------------------------- filters

TEST(EventStreamFilter, Kinds) {
  pb::StreamEventsRequest request;
  request.add_kinds(pb::EVENT_KIND_PROMOTE);
  request.add_kinds(pb::EVENT_KIND_DEALLOC_MINOR);
  EXPECT_THAT(words(stream(request)), ElementsAre("3 PROMOTE", "1 DEALLOC_MINOR", "9 PROMOTE"));
  for (const pb::EventKind kind :
       {pb::EVENT_KIND_ALLOC_MINOR, pb::EVENT_KIND_ALLOC_MAJOR, pb::EVENT_KIND_PROMOTE,
        pb::EVENT_KIND_DEALLOC_MINOR, pb::EVENT_KIND_DEALLOC_MAJOR}) {
    pb::StreamEventsRequest only;
    only.add_kinds(kind);
    const auto messages = stream(only);
    ASSERT_THAT(messages, SizeIs(1));
    EXPECT_GT(messages[0].events_size(), 0);
    for (const pb::SampleEvent& event : messages[0].events()) EXPECT_EQ(event.kind(), kind);
  }
}

TEST(EventStreamFilter, FramesOfTheCallstack) {
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.set_pattern("cache"); }), ElementsAre(3));
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.set_pattern("Request"); }), IsEmpty())
      << "the site is meant";
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.add_require("Request"); }), ElementsAre(1, 3));
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.add_forbid("Request"); }), ElementsAre(2));
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.add_hide("Request"); }), ElementsAre(1, 2, 3, 9));
  EXPECT_THAT(blocks_that_pass([](auto& f) {
                f.add_hide("Cache|Sessions");
                f.set_pattern("Request");
              }),
              ElementsAre(1, 3));
}

TEST(EventStreamFilter, HiddenFramesAreNotSent) {
  pb::StreamEventsRequest request;
  request.mutable_filter()->add_hide("Sessions|Request");
  const auto sites = stream(request);
  EXPECT_EQ(sites[0].callstacks(0).locations(0).function(), "Server.loop");
  request.set_full_callstacks(true);
  EXPECT_EQ(stream(request)[0].callstacks(0).locations_size(), 1);
}

TEST(EventStreamFilter, WhatIsKnownOfTheBlock) {
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.set_min_size_bytes(80); }), ElementsAre(2, 3));
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.set_max_size_bytes(80); }), ElementsAre(1, 2));
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.set_source(pb::BLOCK_SOURCE_MARSHAL); }),
              ElementsAre(2));
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.set_source(pb::BLOCK_SOURCE_NORMAL); }),
              ElementsAre(1, 3));
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.set_heap(pb::BLOCK_HEAP_MAJOR); }), ElementsAre(2));
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.add_threads(8); }), ElementsAre(2));
  EXPECT_THAT(blocks_that_pass([](auto& f) { f.add_domains(1); }), ElementsAre(3));
}

TEST(EventStreamFilter, LifetimesAreOfDeallocations) {
  const auto deaths = [](double min, double max) {
    pb::StreamEventsRequest request;
    request.add_kinds(pb::EVENT_KIND_DEALLOC_MINOR);
    request.add_kinds(pb::EVENT_KIND_DEALLOC_MAJOR);
    request.mutable_filter()->set_min_lifetime_seconds(min);
    request.mutable_filter()->set_max_lifetime_seconds(max);
    return blocks(stream(request));
  };
  EXPECT_THAT(deaths(0, 0), ElementsAre(1, 2, 3, 9));
  EXPECT_THAT(deaths(2, 0), ElementsAre(1, 2)) << "3 s and 2 s";
  EXPECT_THAT(deaths(0, 2), ElementsAre(2, 3));
  EXPECT_THAT(deaths(1.5, 2.5), ElementsAre(2));
  pb::StreamEventsRequest request;
  request.mutable_filter()->set_min_lifetime_seconds(100);
  EXPECT_THAT(words(stream(request)), ElementsAre("1 ALLOC_MINOR", "2 ALLOC_MAJOR", "3 ALLOC_MINOR",
                                                  "3 PROMOTE", "9 PROMOTE"));
}

TEST(EventQuery, RefusesWhatMakesNoSense) {
  const auto refusal = [](const std::function<void(pb::StreamEventsRequest&)>& set) {
    pb::StreamEventsRequest request;
    set(request);
    const absl::Status status = event_query(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](auto& r) { r.add_kinds(static_cast<pb::EventKind>(8)); }),
              HasSubstr("kind of event 8"));
  EXPECT_THAT(refusal([](auto& r) { r.add_kinds(pb::EVENT_KIND_UNSPECIFIED); }),
              HasSubstr("kind of event 0"));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_filter()->set_pattern("("); }), HasSubstr("("));
  EXPECT_THAT(refusal([](auto& r) { r.mutable_filter()->set_fate(pb::FATE_DEAD); }),
              HasSubstr("choose kinds"));
  refusal([](auto& r) { r.mutable_filter()->set_allocated_in_range(true); });
  refusal([](auto& r) { r.mutable_filter()->set_source(static_cast<pb::BlockSource>(9)); });
  refusal([](auto& r) {
    r.mutable_filter()->set_min_lifetime_seconds(std::numeric_limits<double>::quiet_NaN());
  });
}

TEST(EventQuery, TakesTheCursor) {
  pb::StreamEventsRequest request;
  EXPECT_FALSE(event_query(request)->cursor);
  request.mutable_cursor()->set_log(3);
  request.mutable_cursor()->set_next_event(4);
  EXPECT_EQ(event_query(request)->cursor, (EventCursor{3, 4}));
}

}  // namespace
}  // namespace memprofd
