// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/event_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;
using ::testing::HasSubstr;
using ::testing::Not;

pb::SampleEvent event(pb::EventKind kind, std::uint64_t block) {
  pb::SampleEvent result;
  result.set_kind(kind);
  result.set_time_unix_ns(1'700'000'000'250'000'000);
  result.set_block(block);
  result.set_size_words(3);
  result.set_n_samples(2);
  result.set_source(pb::BLOCK_SOURCE_NORMAL);
  result.set_thread(77);
  result.set_domain(1);
  result.set_callstack_id(5);
  if (kind == pb::EVENT_KIND_DEALLOC_MINOR || kind == pb::EVENT_KIND_DEALLOC_MAJOR) {
    result.set_lifetime_seconds(0.25);
  }
  return result;
}

pb::StreamEventsResponse response() {
  pb::StreamEventsResponse result;
  pb::EventCallstack& callstack = *result.add_callstacks();
  callstack.set_id(5);
  pb::Location& site = *callstack.add_locations();
  site.set_function("Cache.fill");
  site.set_file("cache.ml");
  site.set_line(58);
  callstack.add_locations()->set_function("caml_main");
  *result.add_events() = event(pb::EVENT_KIND_ALLOC_MINOR, 11);
  *result.add_events() = event(pb::EVENT_KIND_DEALLOC_MINOR, 11);
  return result;
}

std::vector<nlohmann::json> parsed(const std::string& lines) {
  std::vector<nlohmann::json> result;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) result.push_back(nlohmann::json::parse(line));
  return result;
}

TEST(EventLines, TextHasALineForEachEvent) {
  EXPECT_EQ(EventLines(false).lines(response(), 2),
            "1700000000.250000 alloc_minor   block 11, 3 words, 2 samples, normal, thread 77"
            "  Cache.fill cache.ml:58 < caml_main\n"
            "1700000000.250000 dealloc_minor block 11, 3 words, 2 samples, normal, thread 77,"
            " lived 250 ms  Cache.fill cache.ml:58 < caml_main\n");
}

TEST(EventLines, CsMemoryIsInBytes) {
  pb::StreamEventsResponse of_c = response();
  pb::SampleEvent& taken = *of_c.mutable_events(0);
  taken.set_kind(pb::EVENT_KIND_C_ALLOC);
  taken.set_source(pb::BLOCK_SOURCE_MALLOC);
  taken.set_heap(pb::BLOCK_HEAP_C);
  taken.set_size_bytes(21);
  *of_c.mutable_events(1) = taken;
  of_c.mutable_events(1)->set_kind(pb::EVENT_KIND_C_FREE);
  of_c.mutable_events(1)->set_lifetime_seconds(0.25);
  EXPECT_EQ(EventLines(false).lines(of_c, 2),
            "1700000000.250000 c_alloc       block 11, 21 bytes, 2 samples, malloc, thread 77"
            "  Cache.fill cache.ml:58 < caml_main\n"
            "1700000000.250000 c_free        block 11, 21 bytes, 2 samples, malloc, thread 77,"
            " lived 250 ms  Cache.fill cache.ml:58 < caml_main\n");
  const auto lines = parsed(EventLines(true).lines(of_c, 2));
  EXPECT_EQ(lines[0]["kind"], "c_alloc");
  EXPECT_EQ(lines[0]["heap"], "c");
  EXPECT_EQ(lines[0]["size_bytes"], 21);
  EXPECT_EQ(lines[1]["lifetime_seconds"], 0.25);
  EXPECT_FALSE(parsed(EventLines(true).lines(response(), 1))[0].contains("size_bytes"));
}

TEST(EventLines, JsonHasAnObjectForEachEvent) {
  const auto lines = parsed(EventLines(true).lines(response(), 2));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["kind"], "alloc_minor");
  EXPECT_EQ(lines[0]["time_unix_ns"], 1'700'000'000'250'000'000);
  EXPECT_EQ(lines[0]["block"], 11);
  EXPECT_EQ(lines[0]["size_words"], 3);
  EXPECT_EQ(lines[0]["n_samples"], 2);
  EXPECT_EQ(lines[0]["source"], "normal");
  EXPECT_EQ(lines[0]["thread"], 77);
  EXPECT_EQ(lines[0]["domain"], 1);
  EXPECT_FALSE(lines[0].contains("lifetime_seconds"));
  EXPECT_EQ(lines[1]["lifetime_seconds"], 0.25);
  ASSERT_EQ(lines[1]["callstack"].size(), 2u);
  EXPECT_EQ(lines[1]["callstack"][0]["function"], "Cache.fill");
  EXPECT_EQ(lines[1]["callstack"][0]["file"], "cache.ml");
  EXPECT_EQ(lines[1]["callstack"][0]["line"], 58);
}

TEST(EventLines, CallstacksAreRememberedFromMessageToMessage) {
  EventLines lines(true);
  EXPECT_EQ(lines.lines(response(), 0), "");
  pb::StreamEventsResponse later;
  *later.add_events() = event(pb::EVENT_KIND_PROMOTE, 12);
  *later.add_events() = event(pb::EVENT_KIND_PROMOTE, 13);
  later.mutable_events(1)->set_callstack_id(6);
  const auto out = parsed(lines.lines(later, 2));
  EXPECT_EQ(out.at(0)["callstack"].size(), 2u);
  EXPECT_EQ(out.at(1)["callstack"].size(), 0u) << "never told";
}

TEST(EventLines, NoMoreThanAskedForAndNoMoreThanThereAre) {
  EXPECT_EQ(parsed(EventLines(true).lines(response(), 1)).size(), 1u);
  EXPECT_EQ(parsed(EventLines(true).lines(response(), 1000)).size(), 2u);
  EXPECT_EQ(EventLines(false).lines({}, 10), "");
}

TEST(EventLines, LossesComeFirst) {
  pb::StreamEventsResponse lossy = response();
  lossy.set_dropped_events(12345);
  EXPECT_EQ(EventLines(false).lines(lossy, 0), "12,345 events lost: this reader was too slow\n");
  const auto out = parsed(EventLines(true).lines(lossy, 1));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0]["kind"], "dropped");
  EXPECT_EQ(out[0]["events"], 12345);
  lossy = {};
  lossy.set_lost_records(2000);
  EXPECT_EQ(EventLines(false).lines(lossy, 0), "2,000 records lost before they reached memprofd\n");
  EXPECT_EQ(parsed(EventLines(true).lines(lossy, 1))[0]["records"], 2000);
}

TEST(EventLines, EveryKindAndSourceHasAWord) {
  pb::StreamEventsResponse all;
  for (int kind = pb::EventKind_MIN + 1; kind <= pb::EventKind_MAX; ++kind) {
    *all.add_events() = event(static_cast<pb::EventKind>(kind), 1);
  }
  all.mutable_events(0)->set_source(pb::BLOCK_SOURCE_CUSTOM);
  const auto out = parsed(EventLines(true).lines(all, 10));
  const std::vector<std::string> words{"alloc_minor",   "alloc_major", "promote", "dealloc_minor",
                                       "dealloc_major", "c_alloc",     "c_free"};
  ASSERT_EQ(out.size(), words.size());
  for (std::size_t i = 0; i < words.size(); ++i) EXPECT_EQ(out[i]["kind"], words[i]);
  EXPECT_EQ(out[0]["source"], "custom");
  all.mutable_events(0)->set_kind(static_cast<pb::EventKind>(99));
  all.mutable_events(0)->set_source(static_cast<pb::BlockSource>(99));
  all.mutable_events(0)->set_heap(static_cast<pb::BlockHeap>(99));
  EXPECT_EQ(parsed(EventLines(true).lines(all, 1)).at(0)["kind"], "") << "of a later version";
}

TEST(EventLines, NamesCannotWriteToTheTerminal) {
  pb::StreamEventsResponse hostile = response();
  hostile.mutable_callstacks(0)->mutable_locations(0)->set_function("f\x1b[2J\n\"");
  hostile.mutable_callstacks(0)->mutable_locations(1)->set_file("a\rb");
  const std::string text = EventLines(false).lines(hostile, 1);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const std::string json = EventLines(true).lines(hostile, 1);
  EXPECT_EQ(json.find('\n'), json.size() - 1);
  EXPECT_EQ(parsed(json).at(0)["callstack"][0]["function"], "f\x1b[2J\n\"");
}

}  // namespace
}  // namespace memprofd::ctl
