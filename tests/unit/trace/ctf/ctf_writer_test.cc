// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_writer.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "daemon/trace/ctf/ctf_packet.h"
#include "tests/kit/ctf_trace.h"

namespace memprofd::ctf {
namespace {

using testing::Event;
using testing::example_info;
using testing::MemoryFile;
using testing::OwnedAlloc;
using testing::read_all;
using testing::Trace;
using testing::write_workload;

constexpr std::uint64_t kStart = 1'700'000'000'000'000;

PacketHeader header_of(const MemoryFile& file, std::size_t packet) {
  PacketHeader header;
  EXPECT_EQ(get_header(file.packet(packet), header), HeaderState::kGood) << packet;
  EXPECT_EQ(header.size_bytes, file.packet(packet).size()) << packet;
  return header;
}

class CtfWriter : public ::testing::Test {
 protected:
  Writer& writer(int version = 2) {
    if (!writer_) {
      writer_ = std::make_unique<Writer>(
          file_.sink(),
          [this](std::uint64_t code) {
            ++asked_[code];
            return testing::locations_of_code(code);
          },
          example_info(), WriterOptions{.version = version});
    }
    return *writer_;
  }
  std::uint64_t alloc(std::uint64_t after_us, std::vector<std::uint64_t> callstack = {1, 2},
                      std::uint16_t domain = 0) {
    const absl::StatusOr<std::uint64_t> id = writer().alloc({.time_us = kStart + after_us,
                                                             .domain = domain,
                                                             .length_words = 3,
                                                             .n_samples = 1,
                                                             .callstack = callstack});
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(0);
  }
  Trace written() {
    EXPECT_TRUE(writer().flush().ok());
    return read_all(file_.bytes());
  }

  MemoryFile file_;
  std::unique_ptr<Writer> writer_;
  std::map<std::uint64_t, int> asked_;
};

TEST_F(CtfWriter, AnEmptyTraceHasItsDescription) {
  const Trace trace = written();
  EXPECT_TRUE(trace.summary.complete()) << trace.summary.losses();
  EXPECT_EQ(trace.info, example_info());
  EXPECT_EQ(file_.offsets().size(), 1u);
  EXPECT_EQ(writer().bytes_written(), file_.bytes().size());
  EXPECT_EQ(header_bytes(2), 66u);
  EXPECT_EQ(header_bytes(3), 68u);
}

TEST_F(CtfWriter, LongStringsOfTheDescriptionAreCut) {
  TraceInfo info = example_info();
  info.executable = std::string(100'000, 'x');
  info.context = std::string("a\0b", 3);
  Writer writer(file_.sink(), testing::locations_of_code, info);
  ASSERT_TRUE(writer.flush().ok());
  const Trace trace = read_all(file_.bytes());
  EXPECT_EQ(trace.info.executable, info.executable.substr(0, kMaxInfoString));
  EXPECT_EQ(trace.info.context, "a");
}

TEST_F(CtfWriter, AllKindsOfEvents) {
  const std::vector<std::uint64_t> callstack = {5, 6, 7};
  std::vector<OwnedAlloc> allocs;
  for (const std::uint64_t words : {0ul, 1ul, 16ul, 17ul, 252ul, 253ul, 65535ul, 65536ul,
                                    (1ul << 31) - 1, 1ul << 31, 1ul << 32, 1ul << 54}) {
    for (const std::uint64_t samples : {1ul, 2ul, 1ul << 40}) {
      for (const Source source : {Source::kMinor, Source::kMajor, Source::kExternal}) {
        allocs.emplace_back(Alloc{.time_us = kStart + allocs.size(),
                                  .id = allocs.size(),
                                  .length_words = words,
                                  .n_samples = samples,
                                  .source = source},
                            callstack);
        EXPECT_EQ(*writer().alloc(allocs.back().alloc()), allocs.size() - 1);
      }
    }
  }
  ASSERT_TRUE(writer().promote({.time_us = kStart + 500, .id = 0}).ok());
  ASSERT_TRUE(writer().collect({.time_us = kStart + 600, .id = allocs.size() - 1}).ok());
  const Trace trace = written();
  ASSERT_EQ(trace.events.size(), allocs.size() + 2);
  for (std::size_t i = 0; i < allocs.size(); ++i) {
    EXPECT_TRUE(std::get<OwnedAlloc>(trace.events[i]) == allocs[i]) << i;
  }
  EXPECT_EQ(std::get<Promote>(trace.events[allocs.size()]).id, 0u);
  EXPECT_EQ(std::get<Collect>(trace.events[allocs.size() + 1]).id, allocs.size() - 1);
  EXPECT_EQ(trace.summary.last_time_us - trace.summary.first_time_us, 600u);
}

TEST_F(CtfWriter, WhatCannotBeWrittenIsRefused) {
  const std::vector<std::uint64_t> bad_code = {1, std::uint64_t{1} << 63};
  const std::vector<std::uint64_t> good_code = {1, kMaxCode};
  EXPECT_EQ(writer().alloc({.time_us = kStart, .callstack = bad_code}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(writer().alloc({.time_us = kStart, .length_words = (1ul << 54) + 1}).ok());
  EXPECT_FALSE(writer().promote({.time_us = kStart, .id = 0}).ok()) << "no such block yet";
  EXPECT_EQ(*writer().alloc({.time_us = kStart, .callstack = good_code}), 0u);
  EXPECT_FALSE(writer().collect({.time_us = kStart, .id = 1}).ok());
  EXPECT_EQ(written().events.size(), 1u);
}

TEST_F(CtfWriter, TimesNeverGoBack) {
  alloc(100);
  alloc(50);
  ASSERT_TRUE(writer().collect({.time_us = 7, .id = 0}).ok());
  for (const Event& event : written().events) EXPECT_EQ(time_of(event), kStart + 100);
}

TEST_F(CtfWriter, EachCodeIsAskedForOnce) {
  for (int i = 0; i < 100; ++i) alloc(1, {1, 2, 3 + static_cast<std::uint64_t>(i) % 5});
  const Trace trace = written();
  EXPECT_EQ(asked_.size(), 7u);
  for (const auto& [code, times] : asked_) {
    EXPECT_EQ(times, 1) << code;
    EXPECT_EQ(trace.locations.at(code), testing::locations_of_code(code));
  }
}

TEST_F(CtfWriter, PacketsAreBoundedInSize) {
  const MemoryFile file = write_workload(1, 40'000, 2);
  ASSERT_GT(file.offsets().size(), 8u);
  std::size_t full = 0;
  for (std::size_t i = 1; i < file.offsets().size(); ++i) {
    const PacketHeader header = header_of(file, i);
    EXPECT_LE(header.size_bytes, kMaxPacketBytes);
    if (header.size_bytes > kMaxPacketBytes - 1000) ++full;
  }
  EXPECT_GT(full, 5u) << "and not wasted";
}

TEST_F(CtfWriter, PacketsAreBoundedInTime) {
  // From the first event on: 0, 30 s | one microsecond later.
  alloc(0);
  alloc(30'000'000);
  alloc(30'000'001);
  alloc(100'000'000);
  alloc(100'000'001);
  const Trace trace = written();
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
  for (std::size_t i = 2; i < file_.offsets().size(); ++i) {
    const PacketHeader header = header_of(file_, i);
    spans.emplace_back(header.first_time_us - kStart, header.last_time_us - kStart);
  }
  EXPECT_EQ(spans, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                       {0, 30'000'000}, {30'000'001, 30'000'001}, {100'000'000, 100'000'001}}));
  EXPECT_EQ(time_of(trace.events[1]) - kStart, 30'000'000u);
  EXPECT_EQ(time_of(trace.events[4]) - kStart, 100'000'001u);
}

// The low 25 bits of the time go around every 33.5 s.
TEST_F(CtfWriter, TimesAreRightAroundTheWrap) {
  for (std::uint64_t s = 0; s < 400; ++s) alloc(s * 999'983);
  const Trace trace = written();
  for (std::uint64_t s = 0; s < 400; ++s) {
    EXPECT_EQ(time_of(trace.events[s]), kStart + s * 999'983);
  }
}

TEST_F(CtfWriter, ReadableAfterEachFlush) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    alloc(i, {1, i});
    ASSERT_TRUE(writer().flush().ok());
    const Trace trace = read_all(file_.bytes());
    EXPECT_TRUE(trace.summary.complete());
    EXPECT_EQ(trace.events.size(), i + 1);
  }
  const std::uint64_t bytes = writer().bytes_written();
  ASSERT_TRUE(writer().flush().ok());
  EXPECT_EQ(writer().bytes_written(), bytes) << "nothing new, nothing written";
}

TEST_F(CtfWriter, ManyNewCodesInOneCallstack) {
  std::vector<std::uint64_t> callstack(1000);
  for (std::size_t i = 0; i < callstack.size(); ++i) callstack[i] = i * 3;
  alloc(1, callstack);
  EXPECT_TRUE(written().summary.complete());
  MemoryFile long_names;
  Writer writer(
      long_names.sink(),
      [](std::uint64_t code) {
        return std::vector<Location>{{absl::StrCat(code, std::string(3000, 'f')), "g", 1, 1, 1}};
      },
      example_info());
  ASSERT_TRUE(writer.alloc({.time_us = kStart, .callstack = callstack}).ok());
  ASSERT_TRUE(writer.flush().ok());
  const Trace trace = read_all(long_names.bytes());
  EXPECT_TRUE(trace.summary.complete()) << trace.summary.losses();
  ASSERT_EQ(trace.events.size(), 1u);
  const auto& codes = std::get<OwnedAlloc>(trace.events[0]).callstack;
  EXPECT_NE(std::find(codes.begin(), codes.end(), kCutCode), codes.end());
  EXPECT_EQ(trace.locations.at(kCutCode), std::vector<Location>{cut_location()});
  EXPECT_EQ(codes.back(), callstack.back());
}

TEST_F(CtfWriter, Version2MergesDomains) {
  alloc(1, {1}, 0);
  alloc(2, {2}, 5);
  ASSERT_TRUE(writer().collect({.time_us = kStart + 3, .id = 0, .domain = 9}).ok());
  const Trace trace = written();
  EXPECT_TRUE(trace.summary.complete());
  EXPECT_EQ(std::get<OwnedAlloc>(trace.events[1]).event.domain, 0);
  EXPECT_EQ(std::get<OwnedAlloc>(trace.events[1]).event.id, 1u);
}

TEST_F(CtfWriter, Version3KeepsDomainsApart) {
  writer(3);
  EXPECT_EQ(alloc(1, {1, 2}, 0), 0u);
  EXPECT_EQ(alloc(2, {1, 3}, 5), 10'000u);
  EXPECT_EQ(alloc(3, {1, 2}, 0), 1u);
  EXPECT_EQ(alloc(4, {1, 3}, 5), 10'001u);
  const Trace trace = written();
  EXPECT_TRUE(trace.summary.complete()) << trace.summary.losses();
  ASSERT_EQ(trace.events.size(), 4u);
  EXPECT_EQ(std::get<OwnedAlloc>(trace.events[3]).event.domain, 5);
  EXPECT_EQ(std::get<OwnedAlloc>(trace.events[3]).event.id, 10'001u);
  EXPECT_EQ(header_of(file_, 3).domain, 5);
  EXPECT_EQ(header_of(file_, 3).version, 3);
}

// All events of a block follow its allocation, even those of another domain.
TEST_F(CtfWriter, Version3OrdersBlocksAcrossDomains) {
  writer(3);
  const std::uint64_t first = alloc(1, {1}, 0);
  const std::uint64_t second = alloc(2, {1}, 3);
  ASSERT_TRUE(writer().promote({.time_us = kStart + 3, .id = second, .domain = 0}).ok());
  ASSERT_TRUE(writer().collect({.time_us = kStart + 4, .id = first, .domain = 3}).ok());
  alloc(5, {1}, 0);
  const Trace trace = written();
  ASSERT_EQ(trace.events.size(), 5u);
  EXPECT_TRUE(trace.summary.complete());
  std::set<std::uint64_t> allocated;
  for (const Event& event : trace.events) {
    if (const auto* alloc = std::get_if<OwnedAlloc>(&event)) allocated.insert(alloc->event.id);
    if (const auto* promote = std::get_if<Promote>(&event)) {
      EXPECT_EQ(promote->id, second);
      EXPECT_TRUE(allocated.contains(second));
    }
    if (const auto* collect = std::get_if<Collect>(&event)) {
      EXPECT_EQ(collect->id, first);
      EXPECT_TRUE(allocated.contains(first));
    }
  }
  EXPECT_EQ(allocated.size(), 3u);
}

TEST_F(CtfWriter, AFailingSinkCostsOnlyWhatWasOpen) {
  MemoryFile file;
  bool full = false;
  Writer writer(
      [&](std::span<const std::byte> packet) {
        return full ? absl::ResourceExhaustedError("disk full") : file.sink()(packet);
      },
      testing::locations_of_code, example_info());
  testing::Workload workload(9);
  testing::Replay replay(writer);
  int failures = 0;
  std::uint64_t taken = 0;
  for (int i = 0; i < 30'000; ++i) {
    full = i > 10'000 && i < 20'000;
    const absl::Status status = replay.put(workload.next());
    // Blocks whose allocation was refused are not known later.
    if (absl::IsResourceExhausted(status)) ++failures;
    if (status.ok()) ++taken;
  }
  ASSERT_TRUE(writer.flush().ok());
  const Trace trace = read_all(file.bytes());
  EXPECT_GT(failures, 1);
  EXPECT_GT(writer.events_lost(), 5000u);
  EXPECT_EQ(trace.summary.events() + writer.events_lost(), taken);
  EXPECT_GT(trace.summary.allocs_missing, 2000u);
  EXPECT_EQ(trace.summary.callstacks_lost, 0u);
  EXPECT_EQ(trace.summary.codes_unexplained, 0u);
  EXPECT_EQ(trace.summary.locations_partial, 0u);
  EXPECT_EQ(writer.bytes_written(), file.bytes().size());
}

TEST_F(CtfWriter, StartingAfreshTakesFewBytes) {
  MemoryFile file;
  std::map<std::uint64_t, int> asked;
  Writer writer(
      file.sink(),
      [&asked](std::uint64_t code) {
        ++asked[code];
        return testing::locations_of_code(code);
      },
      example_info());
  testing::Workload workload(2);
  testing::Replay replay(writer);
  while (writer.bytes_written() < 3'000'000) ASSERT_TRUE(replay.put(workload.next()).ok());
  const int most = std::max_element(asked.begin(), asked.end(), [](const auto& a, const auto& b) {
                     return a.second < b.second;
                   })->second;
  EXPECT_GE(most, 2) << "the writer has started afresh at least once";
  EXPECT_LE(most, 3) << "no more than once for each megabyte";
}

// A symbolizer may learn more later; readers refuse a file with both answers.
TEST_F(CtfWriter, ACodeKeepsItsFirstMeaning) {
  MemoryFile file;
  int answers = 0;
  Writer writer(
      file.sink(),
      [&answers](std::uint64_t) {
        return std::vector<Location>{{"a.ml", absl::StrCat("answer ", ++answers), 1, 1, 1}};
      },
      example_info());
  const std::vector<std::uint64_t> callstack = {1};
  // Large and different numbers, so that a megabyte is soon reached.
  for (std::uint64_t i = 0; writer.bytes_written() < 3'000'000; ++i) {
    ASSERT_TRUE(writer
                    .alloc({.time_us = kStart + i,
                            .length_words = 1ul << 40,
                            .n_samples = 1ul << 40,
                            .callstack = callstack})
                    .ok());
  }
  const Trace trace = read_all(file.bytes());
  EXPECT_GE(answers, 2);
  EXPECT_EQ(trace.summary.locations, 1u);
  EXPECT_EQ(trace.locations.at(1)[0].function, "answer 1");
}

// The goal: allocation, its promotion and collection, locations and headers.
TEST_F(CtfWriter, AtMost20BytesPerSample) {
  for (const int version : {2, 3}) {
    const MemoryFile file = write_workload(3, 100'000, version);
    const Trace trace = read_all(file.bytes());
    ASSERT_EQ(trace.summary.events(), 100'000u);
    const double bytes =
        static_cast<double>(file.bytes().size()) / static_cast<double>(trace.summary.allocs);
    EXPECT_LE(bytes, 20) << "version " << version;
    std::size_t frames = 0;
    for (const Event& event : trace.events) {
      if (const auto* alloc = std::get_if<OwnedAlloc>(&event)) frames += alloc->callstack.size();
    }
    EXPECT_GE(frames, 10 * trace.summary.allocs) << "callstacks are not trivial";
  }
}

}  // namespace
}  // namespace memprofd::ctf
