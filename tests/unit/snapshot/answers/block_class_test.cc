// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/block_class.h"

#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

// A block of so many fields that holds others of so many words each.
std::string class_of(std::uint64_t fields, const std::vector<std::uint64_t>& held,
                     unsigned tag = 0) {
  ImageBuilder builder;
  const std::uint32_t block = builder.block(fields, tag);
  for (std::uint32_t i = 0; i < held.size(); ++i) builder.point(block, i, builder.string(held[i]));
  const HeapImage image = builder.build();
  const BlockClasses classes(image);
  return classes.text(classes.of(block));
}

TEST(BlockClasses, AnArrayIsLongerThanARecordOrHoldsOneShape) {
  EXPECT_EQ("array", class_of(33, {}));
  EXPECT_EQ("block(32)", class_of(32, {}));
  EXPECT_EQ("array", class_of(8, {3, 3}));
  EXPECT_EQ("block(8)", class_of(8, {3, 4}));
  EXPECT_EQ("block(8)", class_of(8, {3}));
  EXPECT_EQ("block(7)", class_of(7, {3, 3}));
  EXPECT_EQ("block(8, tag 1)", class_of(8, {3, 3}, 1));
  EXPECT_EQ("block(99, tag 1)", class_of(99, {}, 1));
}

TEST(BlockClasses, AreOneForAllStringsAndClosuresOfAFunction) {
  ImageBuilder builder;
  const std::uint32_t small = builder.string(1), large = builder.string(9);
  const std::uint32_t f = builder.block(3, 247, "f"), longer_f = builder.block(4, 247, "f");
  const std::uint32_t g = builder.block(3, 247, "g");
  const HeapImage image = builder.build();
  const BlockClasses classes(image);
  EXPECT_EQ(classes.of(small), classes.of(large));
  EXPECT_EQ(classes.of(f), classes.of(longer_f));
  EXPECT_NE(classes.of(f), classes.of(g));
  EXPECT_EQ(4u, classes.size());  // with arrays
}

TEST(BlockClasses, TagsOfContinuationsAreConstructorsBeforeOCaml5) {
  EXPECT_EQ("continuation", tag_text(245, true));
  EXPECT_EQ("block", tag_text(245, false));
  EXPECT_EQ("lazy", tag_text(244, true));
  EXPECT_EQ("lazy", tag_text(246, false));
}

}  // namespace
}  // namespace memprofd
