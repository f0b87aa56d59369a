// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/heap_regions.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace memprofd {
namespace {

TEST(HeapRegionsTest, HaveHeadersAndNoneWithoutRegions) {
  HeapRegions none;
  EXPECT_FALSE(none.contain(0x1008));
  HeapRegions one;
  one.add(0x1000, 0x2000);
  EXPECT_FALSE(one.contain(0x1000)) << "its header would be before";
  EXPECT_TRUE(one.contain(0x1008));
  EXPECT_TRUE(one.contain(0x2000)) << "a block without fields";
  EXPECT_FALSE(one.contain(0x2008));
  EXPECT_FALSE(one.contain(0x1009)) << "an integer";
  EXPECT_FALSE(one.contain(0));
}

// Regions of all sizes, with and without gaps, some of them in the same megabyte.
TEST(HeapRegionsTest, AreFoundWhateverWasFoundBefore) {
  std::mt19937_64 random(4);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> regions;
  HeapRegions heap_regions;
  std::uint64_t at = 1 << 20;
  for (int i = 0; i < 300; ++i) {
    at += random() % 3 * 8 << random() % 22;
    const std::uint64_t end = at + (1 + random() % 64) * 8 * (i % 7 == 0 ? 4096 : 1);
    regions.emplace_back(at, end);
    heap_regions.add(at, end);
    at = end;
  }
  for (int i = 0; i < 100'000; ++i) {
    const auto& [begin, end] = regions[random() % regions.size()];
    const std::uint64_t value = random() % 4 == 0 ? random() % at & ~std::uint64_t{7}
                                                  : begin + random() % (end - begin + 64) / 8 * 8;
    bool is_in = false;
    for (const auto& [from, to] : regions) is_in |= from <= value - 8 && value - 8 < to;
    ASSERT_EQ(is_in, heap_regions.contain(value)) << std::hex << value;
  }
}

}  // namespace
}  // namespace memprofd
