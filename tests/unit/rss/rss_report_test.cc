// SPDX-License-Identifier: Apache-2.0
// A process of our own that has taken known memory and stands still.
#include "daemon/rss/rss_report.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <functional>

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

// What a build with sanitizers has instead of glibc's malloc is not told apart.
bool has_glibc(const RssReport& report) { return report.allocator == "glibc"; }

TEST(RssReport, MappedChunksAreInUseAsFarAsTheyAreTouched) {
  const RssReport before = report_of([] {});
  if (!has_glibc(before)) GTEST_SKIP() << "another allocator";
  const RssReport after = report_of([] {
    char* block = static_cast<char*>(std::malloc(64 * kMega));
    ::madvise(block, 64 * kMega, MADV_NOHUGEPAGE);
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
