// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/leak_steps.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

constexpr std::uint64_t kBegin = 1'000, kEnd = 101'000'000'000;

std::vector<LargeBlock> blocks(const std::vector<std::pair<int, double>>& born) {
  std::vector<LargeBlock> result;
  for (const auto& [second, words] : born) {
    result.push_back({kBegin + static_cast<std::uint64_t>(second) * 1'000'000'000, words});
  }
  return result;
}

TEST(LeakSteps, ABufferThatDoublesIsALeak) {
  const auto growth = growth_in_steps(blocks({{10, 1e6}, {30, 2e6}, {70, 4e6}}), 4e6, kBegin, kEnd);
  ASSERT_TRUE(growth);
  EXPECT_DOUBLE_EQ(growth->begin_words, 1e6);
  EXPECT_DOUBLE_EQ(growth->end_words, 4e6);
  EXPECT_DOUBLE_EQ(growth->seconds, 60);
  EXPECT_NEAR(growth->confidence, 1 - 1.0 / 6, 1e-9);
}

TEST(LeakSteps, HealthyBlocksAreNone) {
  EXPECT_FALSE(growth_in_steps(blocks({{10, 1e6}, {70, 2e6}}), 2e6, kBegin, kEnd)) << "too few";
  EXPECT_FALSE(growth_in_steps(blocks({{5, 1e6}, {10, 2e6}, {20, 4e6}}), 4e6, kBegin, kEnd))
      << "it has grown to what it needs";
  EXPECT_FALSE(growth_in_steps(blocks({{10, 1e6}, {30, 2e6}, {70, 2e6}}), 2e6, kBegin, kEnd))
      << "one as large is no growth";
  EXPECT_FALSE(growth_in_steps(blocks({{10, 1e6}, {30, 2e6}, {70, 4e6}}), 0, kBegin, kEnd))
      << "it is gone";
  EXPECT_FALSE(growth_in_steps(blocks({{10, 1e6}, {30, 2e6}, {70, 4e6}}), 7.4e6, kBegin, kEnd))
      << "nothing is replaced";
  EXPECT_FALSE(growth_in_steps({}, 0, kBegin, kEnd));
}

}  // namespace
}  // namespace memprofd
