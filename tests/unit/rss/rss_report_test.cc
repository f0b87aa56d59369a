// SPDX-License-Identifier: Apache-2.0
// A process of our own that has taken known memory and stands still.
#include "daemon/rss/rss_report.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "daemon/rss/rss_advice.h"
#include "tests/unit/rss/standing_child.h"

namespace memprofd {
namespace {

constexpr std::size_t kMega = 1 << 20;

RssReport report_of(const std::function<void()>& take_memory) {
  const StandingChild child(take_memory);
  auto report = account_rss(child.pid());
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *std::move(report) : RssReport();
}

TEST(RssReport, PartsAddUpToTheByteOfAProgramThatStandsStill) {
  const RssReport report = report_of([] {});
  EXPECT_GT(report.counted, kMega);
  EXPECT_EQ(report.counted, report.status.resident());
  std::uint64_t sum = 0;
  for (const RssPart& part : report.parts) {
    sum += part.resident;
    EXPECT_LE(part.resident, part.size) << words_of(part.kind).key << part.name;
  }
  EXPECT_EQ(sum, report.counted);
}

// Sanitizer builds replace glibc's malloc, so its parts are not distinguished.
bool has_glibc(const RssReport& report) { return report.allocator == "glibc"; }

TEST(RssReport, MappedChunksAreInUseAsFarAsTheyAreTouched) {
  const RssReport before = report_of([] {});
  if (!has_glibc(before)) GTEST_SKIP() << "another allocator";
  const RssReport after = report_of([] {
    // More than the tests before can have left free: malloc maps no block for which it has room.
    constexpr std::size_t kBytes = 1024 * kMega;
    char* block = static_cast<char*>(std::malloc(kBytes));
    ::madvise(block, kBytes, MADV_NOHUGEPAGE);
    std::memset(block, 1, 16 * kMega);
  });
  const auto grown = [&](RssClass kind) {
    return static_cast<double>(after.resident(kind)) - static_cast<double>(before.resident(kind));
  };
  EXPECT_NEAR(grown(RssClass::kMallocMmapped), 16 * kMega, 8192);
  EXPECT_EQ(after.mapped_chunks, before.mapped_chunks + 1);
}

TEST(RssReport, WhatIsFreeBetweenChunksCanBeTrimmed) {
  const auto take = [](bool freed) {
    return [freed] {
      constexpr int kChunks = 1024;
      static void* chunks[kChunks];
      for (auto& chunk : chunks) std::memset(chunk = std::malloc(16'000), 1, 16'000);
      for (int i = 0; freed && i < kChunks - 1; ++i) std::free(chunks[i]);
    };
  };
  const RssReport used = report_of(take(false)), freed = report_of(take(true));
  if (!has_glibc(used)) GTEST_SKIP() << "another allocator";
  EXPECT_GT(used.resident(RssClass::kMallocUsed), 15 * kMega);
  EXPECT_GT(freed.resident(RssClass::kMallocFree),
            used.resident(RssClass::kMallocFree) + 14 * kMega);
  EXPECT_GT(freed.trimmable, 14 * kMega);
  ASSERT_FALSE(freed.advice.empty());
  EXPECT_EQ(freed.advice[0].action, "call malloc_trim (0)");
  EXPECT_EQ(freed.advice[0].bytes, freed.trimmable);
}

// OCaml 4 keeps what is free up to space_overhead of what lives, in whole chunks.
TEST(RssReport, ACompactionGivesBackWhatItsChunksTell) {
  const auto advised = [](std::vector<std::uint64_t> chunks, std::uint64_t used,
                          std::uint64_t all_resident) {
    RssReport report{.ocaml_version = "4.13.1",
                     .counted = all_resident,
                     .space_overhead = 80,
                     .heap_known = true};
    std::uint64_t heap = 0;
    for (std::uint64_t& chunk : chunks) heap += chunk *= kMega;
    report.parts = {{.kind = RssClass::kOcamlUsed, .resident = used * kMega},
                    {.kind = RssClass::kOcamlFree, .resident = heap - used * kMega}};
    report.ocaml_chunks = chunks;
    report.ocaml_chunks_used = used * kMega;
    advise(report);
    for (const RssAdvice& advice : report.advice) {
      if (advice.action.find("compact") != std::string::npos) return advice.bytes / kMega;
    }
    return std::uint64_t{0};
  };
  const std::vector<std::uint64_t> ten(10, 40);  // 400 MiB
  EXPECT_EQ(advised(ten, 300, 400 * kMega), 0u) << "240 may stay free";
  EXPECT_EQ(advised(ten, 150, 400 * kMega), 400u - 280) << "150, and 120 in chunks of 40";
  EXPECT_EQ(advised({400}, 150, 400 * kMega), 0u) << "a chunk is kept whole";
  EXPECT_EQ(advised({400}, 100, 400 * kMega), 220u) << "or given up for one of the right size";
  EXPECT_EQ(advised(ten, 210, 400 * kMega), 0u);
  EXPECT_EQ(advised(ten, 190, 400 * kMega), 40u);
  EXPECT_EQ(advised(ten, 190, 1000 * kMega), 0u) << "less than 5 % of all";
}

TEST(RssReport, SharedMemoryIsNotMalloc) {
  const RssReport report = report_of([] {
    void* shared =
        ::mmap(nullptr, 4 * kMega, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    std::memset(shared, 1, 4 * kMega);
  });
  EXPECT_EQ(report.resident(RssClass::kSharedMemory), 4 * kMega);
}

TEST(RssReport, SaysThatAProgramIsNoOcaml) {
  const RssReport report = report_of([] {});
  EXPECT_EQ(report.ocaml_version, "");
  ASSERT_FALSE(report.notes.empty());
  EXPECT_EQ(report.resident(RssClass::kOcamlUsed), 0u);
}

TEST(RssReport, OfNoProcessIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(account_rss(1 << 30).status()));
}

}  // namespace
}  // namespace memprofd
