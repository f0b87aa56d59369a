// SPDX-License-Identifier: Apache-2.0
// Truncated, damaged and mixed-up traces: how much is read, that it is correct, and that the
// summary reports the rest.
#include <gtest/gtest.h>

#include <fstream>

#include "daemon/trace/ctf/ctf_packet.h"
#include "tests/kit/ctf_trace.h"
#include "tests/kit/full_length.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::ctf {
namespace {

using testing::Bytes;
using testing::Event;
using testing::MemoryFile;
using testing::OwnedAlloc;
using testing::read_all;
using testing::Trace;
using testing::write_workload;

// Allocations by id, which identifies them in the original trace.
std::map<std::uint64_t, const OwnedAlloc*> allocs_by_id(const Trace& trace) {
  std::map<std::uint64_t, const OwnedAlloc*> allocs;
  for (const Event& event : trace.events) {
    if (const auto* alloc = std::get_if<OwnedAlloc>(&event)) allocs[alloc->event.id] = alloc;
  }
  return allocs;
}

// Every allocation is one of the original's, its callstack the same or unknown.
void expect_nothing_wrong(const Trace& damaged, const Trace& original) {
  const auto originals = allocs_by_id(original);
  std::uint64_t unknown = 0;
  for (const Event& event : damaged.events) {
    const auto* alloc = std::get_if<OwnedAlloc>(&event);
    if (alloc == nullptr) continue;
    const std::uint64_t id = alloc->event.id;
    ASSERT_TRUE(originals.contains(id)) << id;
    const OwnedAlloc& expected = *originals.at(id);
    ASSERT_EQ(alloc->event.time_us, expected.event.time_us) << id;
    ASSERT_EQ(alloc->event.length_words, expected.event.length_words) << id;
    if (alloc->callstack.empty() && !expected.callstack.empty()) {
      ++unknown;
    } else {
      ASSERT_EQ(alloc->callstack, expected.callstack) << id;
    }
  }
  EXPECT_EQ(unknown, damaged.summary.callstacks_lost);
  for (const auto& [code, locations] : damaged.locations) {
    const std::vector<Location>& expected = original.locations.at(code);
    if (locations == std::vector<Location>{unknown_location()}) continue;
    ASSERT_EQ(locations.size(), expected.size());
    for (std::size_t i = 0; i < locations.size(); ++i) {
      EXPECT_EQ(locations[i].line, expected[i].line);
      EXPECT_TRUE(locations[i].file == expected[i].file || locations[i].file == "<unknown>");
      EXPECT_TRUE(locations[i].function == expected[i].function || locations[i].function == "??");
    }
  }
}

Bytes without_packet(const MemoryFile& file, std::size_t packet) {
  Bytes bytes;
  for (std::size_t i = 0; i < file.offsets().size(); ++i) {
    if (i == packet) continue;
    const auto part = file.packet(i);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

// A dozen packets, which only at full length are as large as packets may be.
MemoryFile dozen_packets(unsigned seed, int version, std::uint16_t domains = 1) {
  return full_length() ? write_workload(seed, 40'000 * domains, version, domains)
                       : write_workload(seed, 3000, version, domains, 250);
}

TEST(CtfDamage, CutOffAtEveryByte) {
  const MemoryFile file = write_workload(4, 16, 2, 1, 3);
  const Trace original = read_all(file.bytes());
  ASSERT_TRUE(original.summary.complete());
  ASSERT_GT(file.offsets().size(), 8u);
  const std::size_t info_end = file.offsets()[1];
  for (std::size_t size = 0; size <= file.bytes().size(); ++size) {
    const Trace trace = read_all(std::span(file.bytes()).first(size));
    if (size < info_end) {
      EXPECT_FALSE(trace.summary.read_error.ok()) << size;
      continue;
    }
    std::size_t whole = 0, whole_end = 0;
    while (whole < file.offsets().size() &&
           file.offsets()[whole] + file.packet(whole).size() <= size) {
      whole_end = file.offsets()[whole] + file.packet(whole).size();
      ++whole;
    }
    const bool cut = whole_end != size;
    EXPECT_EQ(trace.summary.packets, whole) << size;
    EXPECT_EQ(trace.summary.packets_truncated, cut ? 1u : 0u) << size;
    EXPECT_EQ(trace.summary.packets_damaged, 0u) << size;
    EXPECT_EQ(trace.summary.bytes_lost, size - whole_end) << size;
    EXPECT_EQ(trace.summary.bytes, size);
    EXPECT_EQ(trace.summary.complete(), !cut) << size;
    ASSERT_LE(trace.events.size(), original.events.size());
    EXPECT_EQ(trace.summary.callstacks_lost, 0u) << size;
    expect_nothing_wrong(trace, original);
  }
}

// A file has no checksums, so a changed byte may go unnoticed. But the summary's counts have to be
// correct, and nothing may crash or loop.
TEST(CtfDamage, BytesChanged) {
  const MemoryFile file = write_workload(5, 16, 2, 1, 4);
  const Trace original = read_all(file.bytes());
  std::size_t tried = 0, noticed = 0, unchanged = 0;
  // Headers and events begin at any place, and each of their bytes is met.
  const std::size_t stride = full_length() ? 1 : 5;
  for (std::size_t at = 0; at < file.bytes().size(); at += stride) {
    for (const std::uint8_t flip : {0x01, 0xFE}) {
      ++tried;
      Bytes bytes = file.bytes();
      bytes[at] ^= std::byte{flip};
      const Trace trace = read_all(bytes);
      if (!trace.summary.read_error.ok()) {
        EXPECT_LT(at, file.offsets()[1]) << "only the description is needed";
        continue;
      }
      const ReadSummary& summary = trace.summary;
      EXPECT_EQ(summary.bytes, bytes.size());
      EXPECT_EQ(summary.events(), trace.events.size());
      EXPECT_LE(summary.bytes_lost, bytes.size());
      EXPECT_EQ(summary.bytes_lost > 0,
                summary.packets_truncated + summary.packets_damaged + summary.packets_foreign > 0);
      EXPECT_EQ(summary.losses().empty(), summary.complete() && summary.packets_foreign == 0);
      if (!summary.complete() || summary.packets_foreign > 0) ++noticed;
      if (trace.events == original.events) ++unchanged;
      // One packet is skipped, at most, and later ones are found again.
      EXPECT_GE(summary.packets + 2, file.offsets().size()) << at;
    }
  }
  EXPECT_GT(noticed, tried / 4);
  EXPECT_GT(unchanged, 0u);
}

TEST(CtfDamage, ABadPacketIsSkippedAndNothingAfterItIsWrong) {
  const MemoryFile file = dozen_packets(6, 2);
  const Trace original = read_all(file.bytes());
  for (std::size_t packet = 1; packet + 1 < file.offsets().size(); ++packet) {
    Bytes bytes = file.bytes();
    // An event that does not exist, in the middle of nowhere.
    bytes[file.offsets()[packet] + 66 + 3] = std::byte{0xFE};
    const Trace trace = read_all(bytes);
    EXPECT_EQ(trace.summary.packets_damaged, 1u) << packet;
    EXPECT_EQ(trace.summary.bytes_lost, file.packet(packet).size()) << packet;
    EXPECT_EQ(trace.summary.packets, file.offsets().size() - 1) << packet;
    EXPECT_FALSE(trace.summary.complete());
    PacketHeader header;
    ASSERT_EQ(get_header(file.packet(packet), header), HeaderState::kGood);
    EXPECT_EQ(trace.summary.allocs_missing, header.end_alloc_id - header.first_alloc_id);
    EXPECT_EQ(trace.summary.allocs + trace.summary.allocs_missing, original.summary.allocs);
    expect_nothing_wrong(trace, original);
  }
}

TEST(CtfDamage, AMissingPacketIsNoticed) {
  const MemoryFile file = dozen_packets(7, 2);
  const Trace original = read_all(file.bytes());
  for (std::size_t packet = 1; packet + 1 < file.offsets().size(); ++packet) {
    const Trace trace = read_all(without_packet(file, packet));
    EXPECT_FALSE(trace.summary.complete()) << packet;
    expect_nothing_wrong(trace, original);
  }
}

TEST(CtfDamage, CallstacksComeBackWhereTheWriterStartsAfresh) {
  const MemoryFile file = write_workload(8, 400'000, 2);
  const Trace original = read_all(file.bytes());
  const std::size_t bad = file.offsets().size() / 3;
  const Trace trace = read_all(without_packet(file, bad));
  expect_nothing_wrong(trace, original);
  EXPECT_GT(trace.summary.callstacks_lost, 0u);
  std::size_t last_unknown = 0;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const auto* alloc = std::get_if<OwnedAlloc>(&trace.events[i]);
    if (alloc != nullptr && alloc->callstack.empty()) last_unknown = i;
  }
  EXPECT_LT(last_unknown, trace.events.size() * 9 / 10);
}

TEST(CtfDamage, GarbageBetweenPackets) {
  const MemoryFile file = write_workload(9, 3000, 2, 1, 500);
  const Trace original = read_all(file.bytes());
  Bytes bytes;
  for (std::size_t i = 0; i < file.offsets().size(); ++i) {
    const auto part = file.packet(i);
    bytes.insert(bytes.end(), part.begin(), part.end());
    // It ends with the beginning of a magic number.
    if (i == 4) bytes.insert(bytes.end(), 70'001, std::byte{0xC1});
  }
  const Trace trace = read_all(bytes);
  EXPECT_EQ(trace.summary.packets_damaged, 1u);
  EXPECT_EQ(trace.summary.bytes_lost, 70'001u);
  EXPECT_EQ(trace.summary.events(), original.summary.events());
  expect_nothing_wrong(trace, original);
}

TEST(CtfDamage, PacketsOfAnotherProcess) {
  const MemoryFile file = write_workload(10, 3000, 2, 1, 1000);
  const Trace original = read_all(file.bytes());
  // A forked child that continued later with the parent's state.
  TraceInfo child_info = testing::example_info();
  child_info.pid = 77;
  MemoryFile child;
  Writer writer(child.sink(), testing::locations_of_code, child_info);
  testing::Workload workload(1);
  testing::Replay replay(writer);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(replay.put(workload.next()).ok());
  ASSERT_TRUE(writer.flush().ok());
  Bytes bytes = file.bytes();
  for (std::size_t i = 1; i < child.offsets().size(); ++i) {
    const auto packet = child.packet(i);
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(file.offsets().back()), packet.begin(),
                 packet.end());
  }
  const Trace trace = read_all(bytes);
  EXPECT_EQ(trace.summary.packets_foreign, child.offsets().size() - 1);
  EXPECT_EQ(trace.summary.bytes_lost, bytes.size() - file.bytes().size());
  EXPECT_TRUE(trace.summary.complete());
  EXPECT_TRUE(trace.events == original.events);
  EXPECT_EQ(trace.locations, original.locations);
}

TEST(CtfDamage, ADamagedPidDoesNotMeanAnotherProcess) {
  const MemoryFile file = dozen_packets(11, 2);
  const Trace original = read_all(file.bytes());
  for (std::size_t packet = 1; packet + 1 < file.offsets().size(); ++packet) {
    Bytes bytes = file.bytes();
    bytes[file.offsets()[packet] + 30] ^= std::byte{4};
    const Trace trace = read_all(bytes);
    EXPECT_EQ(trace.summary.packets_foreign, 1u);
    expect_nothing_wrong(trace, original);
  }
}

TEST(CtfDamage, MultiDomainTracesLoseCallstacksOnly) {
  const MemoryFile file = dozen_packets(12, 3, 3);
  const Trace original = read_all(file.bytes());
  ASSERT_TRUE(original.summary.complete()) << original.summary.losses();
  for (std::size_t packet = 1; packet + 1 < file.offsets().size(); packet += 2) {
    Bytes bytes = file.bytes();
    bytes[file.offsets()[packet] + 68 + 3] = std::byte{0xFE};
    const Trace trace = read_all(bytes);
    EXPECT_EQ(trace.summary.packets_damaged, 1u) << packet;
    expect_nothing_wrong(trace, original);
  }
}

TEST(CtfDamage, ManyDomainsStayWithinTheBound) {
  MemoryFile file;
  Writer writer(file.sink(), testing::locations_of_code, testing::example_info(), {.version = 3});
  const std::vector<std::uint64_t> callstack = {1, 2, 3};
  constexpr std::size_t kDomains = Reader::kMaxDomains + 40;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t domain = 0; domain < kDomains; ++domain) {
      ASSERT_TRUE(writer
                      .alloc({.time_us = testing::example_info().start_time_us,
                              .domain = static_cast<std::uint16_t>(domain),
                              .length_words = 1,
                              .n_samples = 1,
                              .callstack = callstack})
                      .ok());
    }
    ASSERT_TRUE(writer.flush().ok());
  }
  const Trace trace = read_all(file.bytes());
  EXPECT_EQ(trace.summary.allocs, 2 * kDomains);
  EXPECT_EQ(trace.summary.callstacks_lost, kDomains) << "the second time they are forgotten";
  EXPECT_EQ(trace.summary.cache_disagreements, 0u);
}

TEST(CtfDamage, NotATrace) {
  const auto error_of = [](std::string_view text) {
    return std::string(Reader::open(std::as_bytes(std::span(text))).status().message());
  };
  EXPECT_EQ(error_of(""), "this is not a Memtrace trace: it is empty");
  EXPECT_EQ(error_of("hello, I am a text file"),
            "this is not a Memtrace trace: it does not start with a packet header");
  const MemoryFile file = write_workload(1, 10, 2);
  std::string version_1 = file.text();
  version_1[28] = 1;
  EXPECT_EQ(error_of(version_1),
            "this is not a Memtrace trace: version 1 of the format is neither 2 nor 3");
  EXPECT_EQ(error_of(file.text().substr(0, 80)),
            "this is not a Memtrace trace: it ends inside its first packet");
  std::string no_info = file.text().substr(file.offsets()[1]);
  EXPECT_EQ(error_of(no_info),
            "this is not a Memtrace trace: the first packet is not the trace's description");
  std::string no_rate = file.text();
  no_rate[70 + 7] = '\x7f';
  EXPECT_EQ(error_of(no_rate),
            "this is not a Memtrace trace: the sampling rate is not between 0 and 1");
}

absl::StatusOr<ReadSummary> read_file(const std::string& path, Visitor& visitor) {
  absl::StatusOr<Reader> reader = Reader::open(path);
  if (!reader.ok()) return reader.status();
  return reader->read(visitor);
}

TEST(CtfDamage, FilesAndTheirErrors) {
  TempDir dir;
  const MemoryFile file = write_workload(13, 40'000, 2);
  ASSERT_GT(file.bytes().size(), 300'000u) << "more than the reader's window";
  const std::string path = dir.write("a.ctf", file.text());
  Trace trace;
  const absl::StatusOr<ReadSummary> summary = read_file(path, trace);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_TRUE(summary->complete());
  EXPECT_TRUE(trace.events == read_all(file.bytes()).events);

  std::string damaged = file.text();
  damaged[file.offsets()[5] + 66 + 3] = '\xFE';
  Trace rest;
  const auto damaged_summary = read_file(dir.write("b.ctf", damaged), rest);
  ASSERT_TRUE(damaged_summary.ok());
  EXPECT_EQ(damaged_summary->bytes_lost, file.packet(5).size());
  EXPECT_NE(damaged_summary->losses().find("1 damaged stretch (31"), std::string::npos)
      << damaged_summary->losses();

  EXPECT_EQ(read_file(dir.path("none"), trace).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(read_file(dir.path(), trace).ok()) << "a directory";
}

}  // namespace
}  // namespace memprofd::ctf
