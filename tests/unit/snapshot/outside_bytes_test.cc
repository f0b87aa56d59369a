// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/outside_bytes.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace memprofd {
namespace {

constexpr std::uint64_t kManaged = 0x200;

std::uint64_t bigarray(std::uint64_t kind, std::vector<std::uint64_t> sizes) {
  std::vector<std::uint64_t> fields = {1, 2, sizes.size(), kManaged | kind, 0};
  fields.insert(fields.end(), sizes.begin(), sizes.end());
  return outside_bytes(kBigarrayIdentifier, fields);
}

TEST(OutsideBytes, AreElementsTimesDimensions) {
  EXPECT_EQ(8000u, bigarray(1, {1000}));
  EXPECT_EQ(1200u, bigarray(3, {30, 40}));
  EXPECT_EQ(16u * 24, bigarray(11, {2, 3, 4}));
  EXPECT_EQ(8u, bigarray(1, {})) << "without dimensions it has one element";
  EXPECT_EQ(0u, bigarray(1, {5, 0}));
  EXPECT_EQ(14u, bigarray(13, {7}));
}

TEST(OutsideBytes, NothingIsBelievedThatCannotBe) {
  EXPECT_EQ(0u, bigarray(14, {1000})) << "no such kind";
  EXPECT_EQ(0u, bigarray(1, {1u << 31, 1u << 31, 1u << 31})) << "more than there can be";
  EXPECT_EQ(0u, bigarray(2, std::vector<std::uint64_t>(17, 1)));
  const std::vector<std::uint64_t> cut = {1, 2, 3, kManaged | 1, 0, 10, 10};
  EXPECT_EQ(0u, outside_bytes(kBigarrayIdentifier, cut)) << "a dimension is not at hand";
  EXPECT_EQ(0u, outside_bytes(kBigarrayIdentifier, {}));
}

TEST(OutsideBytes, OthersHaveWhatIsKnownOfThem) {
  const std::vector<std::uint64_t> fields = {1, 2};
  EXPECT_EQ(65536u, outside_bytes(kChannelIdentifier, fields));
  EXPECT_EQ(0u, outside_bytes("_j", fields));
}

}  // namespace
}  // namespace memprofd
