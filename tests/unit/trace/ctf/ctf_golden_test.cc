// SPDX-License-Identifier: Apache-2.0
// Traces in tests/golden. The reference tracer wrote reference_v2.ctf in one of our programs, and
// its dump was compared with that of the reference; our writer wrote the others.
#include <gtest/gtest.h>

#include <algorithm>

#include "daemon/trace/ctf/ctf_dump.h"
#include "tests/kit/ctf_trace.h"
#include "tests/kit/golden.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::ctf {
namespace {

using memprofd::testing::expect_golden;
using testing::Bytes;
using testing::Event;
using testing::MemoryFile;
using testing::read_all;
using testing::Trace;

Bytes golden(const std::string& name) {
  const std::string text = read_file("tests/golden/" + name);
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// The order in which the events were put: the file has one domain after the other.
void sort_by_time(Trace& trace) {
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const Event& a, const Event& b) { return time_of(a) < time_of(b); });
}

TEST(CtfGolden, OneDomain) {
  const MemoryFile file = testing::write_workload(21, 400, 2);
  expect_golden("writer_v2.ctf", file.text());
}

TEST(CtfGolden, ThreeDomains) {
  const MemoryFile file = testing::write_workload(22, 400, 3, 3);
  expect_golden("writer_v3.ctf", file.text());
}

TEST(CtfGolden, DecodedAndEncodedAgainOurFilesAreTheSame) {
  for (const int version : {2, 3}) {
    const Bytes bytes = golden("writer_v" + std::to_string(version) + ".ctf");
    Trace trace = read_all(bytes);
    ASSERT_TRUE(trace.summary.complete()) << trace.summary.losses();
    sort_by_time(trace);
    MemoryFile again;
    ASSERT_TRUE(testing::rewrite(trace, version, again).ok());
    EXPECT_TRUE(again.bytes() == bytes) << "version " << version;
  }
}

TEST(CtfGolden, LongTracesToo) {
  const MemoryFile file = testing::write_workload(23, 150'000, 2);
  MemoryFile again;
  ASSERT_TRUE(testing::rewrite(read_all(file.bytes()), 2, again).ok());
  EXPECT_TRUE(again.bytes() == file.bytes());
}

TEST(CtfGolden, TheReferenceTracer) {
  const Bytes bytes = golden("reference_v2.ctf");
  const Trace trace = read_all(bytes);
  EXPECT_TRUE(trace.summary.complete()) << trace.summary.losses();
  EXPECT_EQ(trace.info.context, "shop");
  EXPECT_EQ(trace.info.word_bits, 64);
  EXPECT_EQ(trace.summary.allocs, 525u);
  EXPECT_EQ(trace.summary.promotes, 45u);
  EXPECT_EQ(trace.summary.collects, 490u);
  EXPECT_EQ(trace.summary.locations, 28u);
  std::string dump;
  ASSERT_TRUE(dump_trace_file("tests/golden/reference_v2.ctf", [&dump](std::string_view line) {
                dump.append(line).append("\n");
              }).ok());
  expect_golden("reference_v2.txt", dump);
  for (const int version : {2, 3}) {
    MemoryFile file;
    ASSERT_TRUE(testing::rewrite(trace, version, file).ok());
    const Trace again = read_all(file.bytes());
    EXPECT_TRUE(again.summary.complete());
    EXPECT_TRUE(again.events == trace.events) << "version " << version;
    EXPECT_EQ(again.locations, trace.locations);
    EXPECT_EQ(again.info, trace.info);
    EXPECT_LE(file.bytes().size(), bytes.size() + 100);
  }
}

}  // namespace
}  // namespace memprofd::ctf
