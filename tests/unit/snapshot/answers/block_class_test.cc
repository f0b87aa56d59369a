// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/block_class.h"

#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

// A block with that many fields, which hold other blocks of that many words.
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

TEST(BlockClasses, AreTypesOfTheSourceWhereTheyAreKnown) {
  ImageBuilder builder;
  const std::uint32_t order = builder.block(2), pair = builder.block(2), all = builder.block(2);
  const std::uint32_t f = builder.block(3, 247, "f"), g = builder.block(3, 247, "g");
  const std::uint32_t unsure = builder.block(3, 247, "h");
  HeapImage image = builder.build();
  image.types = {{},
                 {.name = "Shop.order", .fields = 2},
                 {.name = "Shop.order array", .is_array = true},
                 {.name = "int -> int", .is_function = true},
                 {.is_function = true}};
  set_types(image, {1, 0, 2, 3, 3, 4});
  const BlockClasses classes(image);
  EXPECT_EQ("Shop.order", classes.text(classes.of(order)));
  EXPECT_EQ(2u, classes.fields(classes.of(order)));
  EXPECT_EQ("block(2)", classes.text(classes.of(pair)));
  EXPECT_EQ("Shop.order array", classes.text(classes.of(all)));
  EXPECT_TRUE(classes.is_array(classes.of(all)));
  EXPECT_FALSE(classes.is_array(classes.of(order)));
  EXPECT_EQ("closure f : int -> int", classes.text(classes.of(f)));
  EXPECT_EQ("closure g : int -> int", classes.text(classes.of(g)));
  EXPECT_EQ("closure h", classes.text(classes.of(unsure)));
}

TEST(BlockClasses, TagsOfContinuationsAreConstructorsBeforeOCaml5) {
  EXPECT_EQ("continuation", tag_text(245, true));
  EXPECT_EQ("block", tag_text(245, false));
  EXPECT_EQ("lazy", tag_text(244, true));
  EXPECT_EQ("lazy", tag_text(246, false));
}

}  // namespace
}  // namespace memprofd
