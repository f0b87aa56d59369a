// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/bit_codes.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace memprofd {
namespace {

TEST(BitCodes, NumbersComeBack) {
  std::vector<std::uint64_t> numbers{1, 2, 3, 4, std::numeric_limits<std::uint32_t>::max()};
  for (int bit = 0; bit < 57; ++bit) {
    numbers.push_back(std::uint64_t{1} << bit);
    numbers.push_back((std::uint64_t{2} << bit) - 1);
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) numbers.push_back(1 + (random() >> 8 >> random() % 56));
  BitWriter writer;
  std::vector<std::uint64_t> positions;
  for (const std::uint64_t number : numbers) {
    positions.push_back(writer.position());
    writer.put_gamma(number);
  }
  writer.finish();
  BitReader reader(writer.bytes().data(), 0);
  for (const std::uint64_t number : numbers) ASSERT_EQ(reader.gamma(), number);
  BitReader pairs(writer.bytes().data(), 0);
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    ASSERT_EQ(pairs.two_gammas(), std::pair(numbers[i], numbers[i + 1]));
  }
  for (std::size_t i = 0; i < numbers.size(); i += 97) {
    EXPECT_EQ(BitReader(writer.bytes().data(), positions[i]).gamma(), numbers[i]);
  }
}

TEST(BitCodes, SmallNumbersTakeFewBits) {
  BitWriter writer;
  writer.put_gamma(1);
  EXPECT_EQ(writer.position(), 1u);
  writer.put_gamma(2);
  EXPECT_EQ(writer.position(), 4u);
  writer.put_gamma(6);
  EXPECT_EQ(writer.position(), 9u);
  writer.finish();
  // From the lowest bit on: 1, 010, 001 01.
  EXPECT_EQ(writer.bytes()[0], 0b0'100'010'1);
  EXPECT_EQ(writer.bytes()[1], 0b1);
  EXPECT_EQ(writer.bytes().size(), 2 + BitWriter::kPadding);
}

TEST(BitCodes, NothingTakesNothing) {
  BitWriter writer;
  writer.finish();
  EXPECT_TRUE(writer.bytes().empty());
}

}  // namespace
}  // namespace memprofd
