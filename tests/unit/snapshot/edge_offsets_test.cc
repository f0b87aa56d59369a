// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/edge_offsets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace memprofd {
namespace {

// Steps of all sizes: most nodes have few edges, some have very many.
std::vector<std::uint32_t> random_numbers(std::mt19937& random) {
  std::vector<std::uint32_t> numbers{0};
  while (numbers.size() < 1000) {
    const std::uint32_t most = random() % 50 == 0 ? 200'000 : 4;
    numbers.push_back(numbers.back() + static_cast<std::uint32_t>(random()) % most);
  }
  return numbers;
}

EdgeOffsets offsets_of(const std::vector<std::uint32_t>& numbers) {
  EdgeOffsets offsets;
  for (const std::uint32_t number : numbers) offsets.push_back(number);
  return offsets;
}

TEST(EdgeOffsets, AreTheGivenNumbers) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::uint32_t> numbers = random_numbers(random);
    EdgeOffsets offsets = offsets_of(numbers);
    ASSERT_EQ(numbers.size(), offsets.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], offsets[i]) << i;
    for (int i = 0; i < 100; ++i) {
      const auto number = static_cast<std::uint32_t>(random() % (numbers.back() + 2));
      const auto above = std::ranges::upper_bound(numbers, number);
      ASSERT_EQ(static_cast<std::size_t>(above - numbers.begin()), offsets.up_to(number));
    }
    const std::size_t left = 1 + random() % numbers.size();
    offsets.cut(left);
    numbers.resize(left);
    EXPECT_EQ(offsets, offsets_of(numbers));
    numbers.push_back(numbers.back() + 7);
    offsets.push_back(numbers.back());
    EXPECT_EQ(offsets, offsets_of(numbers)) << left;
    EXPECT_EQ(numbers.back(), offsets.back());
  }
}

}  // namespace
}  // namespace memprofd
