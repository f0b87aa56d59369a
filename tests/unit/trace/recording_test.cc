// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "daemon/trace/trace_codes.h"
#include "tests/kit/ctf_trace.h"
#include "tests/kit/trace_log.h"

namespace memprofd {
namespace {

using ctf::testing::OwnedAlloc;
using ctf::testing::read_all;
using ctf::testing::Trace;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryOutput;
using testing::NamingSymbolizer;
using testing::TraceSource;

class TraceRecordingTest : public ::testing::Test {
 protected:
  TraceRecording recording(RecordingOptions options = {}) {
    return {output_, std::make_shared<NamingSymbolizer>(), testing::example_trace_info(), options};
  }
  Trace trace(std::size_t file = 0) {
    Trace trace = read_all(output_.files.at(file));
    EXPECT_TRUE(trace.summary.complete()) << trace.summary.losses();
    return trace;
  }

  MemoryOutput output_;
  TraceSource source_;
};

template <typename T>
const T& as(const Trace& trace, std::size_t i) {
  return std::get<T>(trace.events.at(i));
}

TEST_F(TraceRecordingTest, WritesWhatHappensToABlock) {
  TraceRecording recording = this->recording();
  const std::uint64_t first = source_.alloc(2, 3, 17);
  source_.advance(5'000'000);
  const std::uint64_t second = source_.alloc(2, 1, 1000, MEMPROF_ALLOC_MAJOR);
  source_.promote(first);
  source_.die(second, MEMPROF_DEALLOC_MAJOR);
  EXPECT_TRUE(recording.put(source_.read()));
  EXPECT_FALSE(recording.end("that is all"));

  const Trace trace = this->trace();
  EXPECT_EQ(trace.info.sampling_rate, 1e-3);
  EXPECT_EQ(trace.info.pid, 4242u);
  ASSERT_EQ(trace.events.size(), 4u);
  const auto& minor = as<OwnedAlloc>(trace, 0);
  EXPECT_EQ(minor.event.length_words, 17u);
  EXPECT_EQ(minor.event.n_samples, 3u);
  EXPECT_EQ(minor.event.source, ctf::Source::kMinor);
  const auto& major = as<OwnedAlloc>(trace, 1);
  EXPECT_EQ(major.event.source, ctf::Source::kMajor);
  EXPECT_EQ(major.event.time_us - minor.event.time_us, 5000u);
  EXPECT_EQ(as<ctf::Promote>(trace, 2).id, minor.event.id);
  EXPECT_EQ(as<ctf::Collect>(trace, 3).id, major.event.id);
  EXPECT_EQ(recording.ended(), "that is all");
  EXPECT_EQ(recording.stats().events, 4u);
  EXPECT_EQ(recording.stats().samples, 2u);
  EXPECT_EQ(recording.stats().unfollowed_events, 0u);
  EXPECT_EQ(recording.stats().bytes, output_.files[0].size());
  EXPECT_FALSE(recording.put(source_.read())) << "nothing after the end";
}

TEST_F(TraceRecordingTest, TimesAreUnixTime) {
  TraceRecording recording = this->recording();
  source_.advance(monotonic_ns() - source_.now());
  const std::uint64_t before_us = realtime_ns() / 1000;
  source_.alloc(1);
  recording.put(source_.read());
  recording.end("");
  const std::uint64_t time_us = as<OwnedAlloc>(trace(), 0).event.time_us;
  EXPECT_GE(time_us + 1'000'000, before_us);
  EXPECT_LE(time_us, realtime_ns() / 1000);
}

TEST_F(TraceRecordingTest, CustomMemoryIsExternalAndUnmarshalledBlocksAreNot) {
  TraceRecording recording = this->recording();
  source_.alloc(1, 1, 3, MEMPROF_ALLOC_MINOR, MEMPROF_SOURCE_CUSTOM);
  source_.alloc(1, 1, 3, MEMPROF_ALLOC_MAJOR, MEMPROF_SOURCE_MARSHAL);
  source_.alloc(1, 1, 3, MEMPROF_ALLOC_MINOR, MEMPROF_SOURCE_MARSHAL);
  recording.put(source_.read());
  recording.end("done");
  const Trace trace = this->trace();
  EXPECT_EQ(as<OwnedAlloc>(trace, 0).event.source, ctf::Source::kExternal);
  EXPECT_EQ(as<OwnedAlloc>(trace, 1).event.source, ctf::Source::kMajor);
  EXPECT_EQ(as<OwnedAlloc>(trace, 2).event.source, ctf::Source::kMinor);
}

// Memtrace's tools fail at both.
TEST_F(TraceRecordingTest, ExternalMemoryIsNotPromotedAndNoCallstackIsEmpty) {
  TraceRecording recording = this->recording();
  const std::uint64_t id = source_.alloc(0, 1, 3, MEMPROF_ALLOC_MINOR, MEMPROF_SOURCE_CUSTOM);
  source_.promote(id);
  source_.die(id, MEMPROF_DEALLOC_MAJOR);
  recording.put(source_.read());
  recording.end("done");
  const Trace trace = this->trace();
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(as<OwnedAlloc>(trace, 0).callstack, std::vector{kUnknownCode});
  EXPECT_EQ(as<ctf::Collect>(trace, 1).id, as<OwnedAlloc>(trace, 0).event.id);
}

TEST_F(TraceRecordingTest, NativeBlocksHaveTheirOwnRecording) {
  TraceSource source(1e-3, 1.0 / 1024);
  TraceRecording others = recording();
  TraceRecording of_c = recording({.of_c = true});
  const std::uint64_t ocaml = source.alloc(1, 1, 3);
  const std::uint64_t small = source.native_alloc(2, 100, 3);
  source.native_alloc(2, 1 << 20);  // surely sampled: 128 times
  source.die(ocaml);
  source.native_free(small);
  EventRead read = source.read();
  read.lost = {.records = 5, .native_events = 9};
  EXPECT_TRUE(others.put(read));
  EXPECT_FALSE(others.end("done"));
  EXPECT_TRUE(of_c.put(read));
  EXPECT_FALSE(of_c.end("done"));

  const Trace without = trace(0);
  ASSERT_EQ(without.events.size(), 2u);
  EXPECT_EQ(without.info.sampling_rate, 1e-3);
  EXPECT_EQ(as<OwnedAlloc>(without, 0).event.source, ctf::Source::kMinor);
  EXPECT_EQ(others.stats().lost_records, 5u);
  const Trace alone = trace(1);
  ASSERT_EQ(alone.events.size(), 3u);
  EXPECT_EQ(alone.info.sampling_rate, 1.0 / 1024);
  const auto& first = as<OwnedAlloc>(alone, 0);
  EXPECT_EQ(first.event.source, ctf::Source::kExternal);
  EXPECT_EQ(first.event.domain, 0u);
  EXPECT_EQ(first.event.length_words, 13u);
  EXPECT_EQ(first.event.n_samples, 3u);
  EXPECT_FALSE(first.callstack.empty());
  EXPECT_EQ(as<OwnedAlloc>(alone, 1).event.n_samples, 128u);
  EXPECT_EQ(as<ctf::Collect>(alone, 2).id, first.event.id);
  EXPECT_EQ(of_c.stats().lost_records, 9u);
  EXPECT_EQ(of_c.stats().unfollowed_events, 0u);
}

// Samples over the rate are what readers of the format count.
TEST_F(TraceRecordingTest, ANativeBlockHasAsManySamplesAsItStandsFor) {
  constexpr double kRate = 1.0 / 1024;
  TraceSource source(1e-3, kRate);
  TraceRecording recording = this->recording({.of_c = true});
  constexpr int kBlocks = 4000;
  constexpr std::uint64_t kWords = 1500;
  for (int i = 0; i < kBlocks; ++i) source.native_alloc(1, 8 * kWords);
  recording.put(source.read());
  recording.end("done");
  std::uint64_t samples = 0;
  const Trace trace = this->trace();
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const std::uint64_t n = as<OwnedAlloc>(trace, i).event.n_samples;
    EXPECT_TRUE(n == 1 || n == 2) << n;
    samples += n;
  }
  const double each = kWords * kRate / (1 - std::pow(1 - kRate, kWords));
  EXPECT_NEAR(static_cast<double>(samples), kBlocks * each, 5 * std::sqrt(kBlocks * 0.25));
}

TEST_F(TraceRecordingTest, CallstacksAreWrittenOutOutermostFirstWithInlinedFramesOfTheirCode) {
  TraceRecording recording = this->recording();
  source_.alloc(5);  // recursive: 0x2001 six times
  recording.put(source_.read());
  recording.end("done");
  const Trace trace = this->trace();
  const std::uint64_t innermost = trace_code(0x1005, 1);
  EXPECT_THAT(as<OwnedAlloc>(trace, 0).callstack,
              ElementsAre(0x3000, 0x2001, 0x2001, 0x2001, 0x2001, 0x2001, 0x2001, innermost));
  const auto& main = trace.locations.at(0x3000);
  ASSERT_EQ(main.size(), 2u);
  EXPECT_EQ(main[0].function, "main_3000_-1") << "caller before callee";
  EXPECT_EQ(main[1].function, "inlined_3000_-1");
  const auto& site = trace.locations.at(innermost);
  ASSERT_EQ(site.size(), 1u);
  EXPECT_EQ(site[0], (ctf::Location{"lib/m1.ml", "f_1005_1", 0x1005, 2, 30}));
}

TEST_F(TraceRecordingTest, EventsOfBlocksFromBeforeAreUnfollowed) {
  const std::uint64_t before = source_.alloc(1);
  const std::uint64_t lost = source_.alloc(1);
  source_.take();
  TraceRecording recording = this->recording();
  source_.promote(before);
  source_.die(before, MEMPROF_DEALLOC_MAJOR);
  source_.alloc(1);
  EXPECT_TRUE(recording.put(source_.read(7)));
  source_.die(lost);
  EXPECT_TRUE(recording.put(source_.read(5)));
  recording.end("done");
  EXPECT_EQ(recording.stats().unfollowed_events, 3u);
  EXPECT_EQ(recording.stats().dropped_events, 12u);
  EXPECT_EQ(recording.stats().events, 1u);
  EXPECT_EQ(trace().events.size(), 1u);
}

TEST_F(TraceRecordingTest, FollowsNoMoreBlocksThanItsLimit) {
  TraceRecording recording = this->recording({.max_blocks = 2});
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(source_.alloc(1));
  for (const std::uint64_t id : blocks) source_.die(id);
  const std::uint64_t after = source_.alloc(1);
  source_.die(after);
  recording.put(source_.read());
  recording.end("done");
  EXPECT_EQ(recording.stats().unfollowed_events, 1u);
  EXPECT_EQ(trace().summary.allocs, 4u);
  EXPECT_EQ(trace().summary.collects, 3u);
}

TEST_F(TraceRecordingTest, IsACompleteFileAfterEveryFlush) {
  TraceRecording recording = this->recording();
  EXPECT_TRUE(recording.flush());
  EXPECT_TRUE(trace().events.empty());
  for (std::size_t n = 1; n <= 3; ++n) {
    source_.alloc(4);
    EXPECT_TRUE(recording.put(source_.read()));
    EXPECT_TRUE(recording.flush());
    EXPECT_EQ(trace().events.size(), n);
    EXPECT_EQ(recording.stats().bytes, output_.files[0].size());
  }
}

TEST_F(TraceRecordingTest, EndsAtItsSizeLimit) {
  TraceRecording recording = this->recording({.max_bytes = RecordingOptions::kMinFileBytes});
  int puts = 0;
  do {
    testing::busy_minute(source_, 2000);
    ASSERT_LT(++puts, 200);
  } while (recording.put(source_.read()));
  EXPECT_THAT(recording.ended(), HasSubstr("size limit of 256 KiB"));
  ASSERT_EQ(output_.files.size(), 1u);
  EXPECT_LE(output_.files[0].size(), RecordingOptions::kMinFileBytes);
  EXPECT_GE(output_.files[0].size(), RecordingOptions::kMinFileBytes * 3 / 5);
  EXPECT_EQ(trace().summary.events(), recording.stats().events);
}

TEST_F(TraceRecordingTest, RotatesIntoFilesThatStandAlone) {
  TraceRecording recording =
      this->recording({.max_bytes = RecordingOptions::kMinFileBytes, .rotate = true});
  const std::uint64_t early = source_.alloc(3);
  for (int puts = 0; output_.files.size() < 3; ++puts) {
    ASSERT_LT(puts, 200);
    testing::busy_minute(source_, 1000);
    ASSERT_TRUE(recording.put(source_.read()));
  }
  const std::uint64_t unfollowed = recording.stats().unfollowed_events;
  EXPECT_GT(unfollowed, 0u) << "blocks that outlived their file";
  source_.die(early);
  ASSERT_TRUE(recording.put(source_.read()));
  EXPECT_EQ(recording.stats().unfollowed_events, unfollowed + 1);
  recording.end("done");
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;
  for (std::size_t file = 0; file < output_.files.size(); ++file) {
    events += trace(file).summary.events();
    bytes += output_.files[file].size();
  }
  EXPECT_EQ(events, recording.stats().events);
  EXPECT_EQ(bytes, recording.stats().bytes);
  EXPECT_LE(trace(0).summary.last_time_us, as<OwnedAlloc>(trace(1), 0).event.time_us);
}

TEST_F(TraceRecordingTest, AChangeOfTheRateEndsTheFile) {
  TraceRecording one_file = this->recording();
  source_.alloc(1);
  EXPECT_TRUE(one_file.put(source_.read()));
  source_.set_rate(1e-2);
  source_.alloc(1);
  EXPECT_FALSE(one_file.put(source_.read()));
  EXPECT_THAT(one_file.ended(), HasSubstr("sampling rate changed to 0.01"));
  EXPECT_EQ(trace().events.size(), 1u);
}

TEST_F(TraceRecordingTest, ARotatingRecordingContinuesAtTheNewRate) {
  TraceRecording recording = this->recording({.rotate = true});
  for (const double rate : {1e-3, 1e-2, 1e-4}) {
    source_.set_rate(rate);
    source_.alloc(1);
    EXPECT_TRUE(recording.put(source_.read()));
  }
  recording.end("done");
  ASSERT_EQ(output_.files.size(), 3u);
  EXPECT_EQ(trace(0).info.sampling_rate, 1e-3);
  EXPECT_EQ(trace(1).info.sampling_rate, 1e-2);
  EXPECT_EQ(trace(2).info.sampling_rate, 1e-4);
}

TEST_F(TraceRecordingTest, DistinguishesDomainsInVersion3) {
  TraceRecording recording = this->recording({.version = ctf::kVersionDomains});
  const std::uint64_t block = source_.alloc(1, 1, 3, MEMPROF_ALLOC_MINOR, MEMPROF_SOURCE_NORMAL, 2);
  source_.alloc(1);
  source_.die(block);
  recording.put(source_.read());
  recording.end("done");
  const Trace trace = this->trace();
  ASSERT_EQ(trace.events.size(), 3u);
  std::map<std::uint16_t, int> events;
  for (const ctf::testing::Event& event : trace.events) {
    if (const auto* alloc = std::get_if<OwnedAlloc>(&event)) ++events[alloc->event.domain];
    if (const auto* collect = std::get_if<ctf::Collect>(&event)) events[collect->domain] += 10;
  }
  EXPECT_EQ(events, (std::map<std::uint16_t, int>{{0, 1}, {2, 11}}));
}

TEST_F(TraceRecordingTest, EndsWhenTheOutputFails) {
  TraceRecording recording = this->recording();
  source_.alloc(1);
  recording.put(source_.read());
  EXPECT_TRUE(recording.flush());
  output_.failure = absl::UnavailableError("cannot write /x.ctf: No space left on device");
  source_.alloc(1);
  EXPECT_TRUE(recording.put(source_.read()));
  EXPECT_FALSE(recording.flush());
  EXPECT_EQ(recording.ended(), "cannot write /x.ctf: No space left on device");
  EXPECT_EQ(recording.stats().events, 1u) << "what is in the file";
  EXPECT_EQ(trace().events.size(), 1u);
  EXPECT_FALSE(recording.end("too late"));
  EXPECT_THAT(recording.ended(), HasSubstr("No space"));
}

TEST(TraceCodes, AreInjectiveAndLeaveTheFormatsOwnNumbersAlone) {
  EXPECT_EQ(trace_code(0x401000, -1), 0x401000u);
  EXPECT_NE(trace_code(0x401000, 0), trace_code(0x401000, 1));
  EXPECT_NE(trace_code(0x401000, 0), trace_code(0x401000, -1));
  const std::uint64_t largest = trace_code(0xffff'ffff'ffff, 8190);
  EXPECT_LT(largest, kUnknownCode);
  EXPECT_LT(largest, ctf::kCutCode);
  EXPECT_NE(trace_code(0x401000, kDebuginfoIsInnermost), trace_code(0x401000, -1));
  EXPECT_NE(trace_code(0x401000, kDebuginfoIsInnermost), trace_code(0x401000, 8190));
  EXPECT_EQ(trace_code(std::uint64_t{1} << 48, -1), kUnknownCode);
  EXPECT_EQ(trace_code(~std::uint64_t{0}, 3), kUnknownCode);
  EXPECT_EQ(trace_code(0, -1), kUnknownCode);
}

TEST(TraceCodes, DeepCallstacksKeepBothEnds) {
  Callstack callstack;
  callstack.entries = {0x1, 0x2, MEMPROF_RUN_MARK | 0xffff'ffff, 0x3};
  callstack.alloc_idx = 4;
  std::vector<std::uint64_t> codes;
  trace_callstack(callstack, codes);
  ASSERT_EQ(codes.size(), kMaxCodes);
  EXPECT_EQ(codes.front(), 0x3u);
  EXPECT_EQ(codes.back(), trace_code(0x1, 4));
  EXPECT_EQ(codes[kMaxCodes - kInnermostCodes - 1], ctf::kCutCode);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), 0x2), static_cast<long>(kMaxCodes) - 3);
}

}  // namespace
}  // namespace memprofd
