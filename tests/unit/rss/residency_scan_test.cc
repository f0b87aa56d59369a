// SPDX-License-Identifier: Apache-2.0
// A process of our own that has freed blocks of malloc without a report.
#include "daemon/rss/residency_scan.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "daemon/rss/rss_report.h"
#include "tests/unit/rss/standing_child.h"

namespace memprofd {
namespace {

constexpr std::size_t kMega = 1 << 20;

absl::StatusOr<ResidencyScan> look_at(int pid, std::vector<NativeBlock> blocks) {
  const auto memory = TargetMemory::open(pid);
  if (!memory.ok()) return memory.status();
  return scan_residency(pid, **memory, std::move(blocks));
}

std::uint64_t address_of(const void* block) { return reinterpret_cast<std::uint64_t>(block); }

TEST(ResidencyScan, SharesOfBlocksAreThoseOfTheirPages) {
  void* memory =
      ::mmap(nullptr, 4 * kMega, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(MAP_FAILED, memory);
  ::madvise(memory, 4 * kMega, MADV_NOHUGEPAGE);
  char* const begin = static_cast<char*>(memory);
  const StandingChild child([&] { std::memset(begin + kMega, 1, kMega); });
  const std::uint64_t at = address_of(begin);
  // From the last to the first; the fourth begins with half a present page.
  const auto found_all =
      look_at(child.pid(), {{.number = 4, .address = at + 2 * kMega - 2048, .bytes = 4096},
                            {.number = 3, .address = at + 2 * kMega, .bytes = kMega},
                            {.number = 2, .address = at + kMega / 2, .bytes = kMega},
                            {.number = 1, .address = at + kMega, .bytes = kMega}});
  ASSERT_TRUE(found_all.ok()) << found_all.status();
  ASSERT_EQ(4u, found_all->size());
  std::map<std::uint64_t, BlockResidency> found;
  for (const BlockResidency& block : *found_all) found[block.number] = block;
  EXPECT_FLOAT_EQ(1, found[1].share);
  EXPECT_FLOAT_EQ(0.5, found[2].share);
  EXPECT_FLOAT_EQ(0, found[3].share);
  EXPECT_FLOAT_EQ(0.5, found[4].share);
  for (const auto& [number, block] : found) EXPECT_FALSE(block.gone) << number;
  ::munmap(memory, 4 * kMega);
}

TEST(ResidencyScan, BlocksThatMallocHasBackAreGone) {
  // In a cache, among the free ones, with mappings of their own, and as the last one before the
  // top.
  const std::size_t sizes[] = {100, 40'000, 4 * kMega, 40'000};
  std::vector<NativeBlock> blocks;
  std::vector<void*> to_free, between;
  for (const std::size_t size : sizes) {
    to_free.push_back(std::malloc(size));
    between.push_back(std::malloc(size));
    std::memset(to_free.back(), 1, size);
    std::memset(between.back(), 1, size);
    blocks.push_back(
        {.number = blocks.size(), .address = address_of(to_free.back()), .bytes = size});
    blocks.push_back(
        {.number = blocks.size(), .address = address_of(between.back()), .bytes = size});
  }
  const StandingChild child([&] {
    for (void* block : to_free) std::free(block);
  });
  const auto report = account_rss(child.pid());
  const auto found_all = look_at(child.pid(), blocks);
  for (void* block : to_free) std::free(block);
  for (void* block : between) std::free(block);
  ASSERT_TRUE(report.ok() && found_all.ok()) << report.status() << found_all.status();
  if (report->allocator != "glibc") GTEST_SKIP() << "another allocator";
  ASSERT_EQ(blocks.size(), found_all->size());
  for (const BlockResidency& block : *found_all)
    EXPECT_EQ(block.number % 2 == 0, block.gone) << block.number;
}

TEST(ResidencyScan, ABlockThatCannotBeIsNoReasonToLookForLong) {
  const StandingChild child([] {});
  const auto found_all =
      look_at(child.pid(), {{.number = 1, .address = 4096, .bytes = std::uint64_t{1} << 46},
                            {.number = 2, .address = ~std::uint64_t{0} - 10, .bytes = 1000}});
  ASSERT_TRUE(found_all.ok()) << found_all.status();
  for (const BlockResidency& block : *found_all) EXPECT_TRUE(block.gone);
}

TEST(ResidencyScan, AProgramThatHasEnded) {
  absl::StatusOr<std::unique_ptr<TargetMemory>> memory = absl::UnknownError("");
  int pid = 0;
  {
    const StandingChild child([] {});
    pid = child.pid();
    memory = TargetMemory::open(pid);
    ASSERT_TRUE(memory.ok()) << memory.status();
  }
  EXPECT_FALSE(scan_residency(pid, **memory, {{.number = 1, .address = 4096, .bytes = 1}}).ok());
}

}  // namespace
}  // namespace memprofd
