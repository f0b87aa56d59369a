// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/largest_blocks.h"

#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

// A table with a long array, a string that is garbage, a Bigarray, and small blocks.
HeapImage some_heap() {
  ImageBuilder builder;
  const std::uint32_t table = builder.block(4), data = builder.block(1000);
  builder.point(table, 1, data);
  builder.global("Cache", 2, table);
  builder.sample(data, 1,
                 builder.site({{.function = "Cache.grow", .file = "cache.ml", .line = 7}}));
  builder.string(500);
  builder.global("Matrix", 0, builder.block(5, 255, "_bigarr02"));
  for (int i = 0; i < 20; ++i) builder.global("Small", 0, builder.block(2));
  HeapImage image = builder.build();
  for (BlockShape& shape : image.shapes) {
    if (shape.tag == 255) shape.outside_bytes = 1 << 20;
  }
  return image;
}

TEST(LargestBlocks, AreReportedWithTheirPathAndSite) {
  const HeapImage image = some_heap();
  const pb::HeapLargest largest = largest_answer(image, ShortestPaths(image), 4);
  EXPECT_EQ(4242, largest.snapshot().pid());
  ASSERT_EQ(4, largest.blocks_size());
  EXPECT_EQ(image.blocks() - 4u, largest.more_blocks());
  EXPECT_EQ("custom _bigarr02", largest.blocks(0).class_name());
  EXPECT_EQ(1u << 20, largest.blocks(0).outside_bytes());
  EXPECT_EQ("global Matrix, field 0 → custom _bigarr02", largest.blocks(0).path());
  EXPECT_EQ("", largest.blocks(0).site());
  EXPECT_EQ("array", largest.blocks(1).class_name());
  EXPECT_EQ(8u * 1001, largest.blocks(1).bytes());
  EXPECT_EQ("global Cache, field 2 → block(4) field 1 → array", largest.blocks(1).path());
  EXPECT_EQ("Cache.grow cache.ml:7", largest.blocks(1).site());
  EXPECT_EQ("string", largest.blocks(2).class_name());
  EXPECT_EQ("", largest.blocks(2).path()) << "it is garbage";
  EXPECT_EQ("block(4)", largest.blocks(3).class_name());
}

TEST(LargestBlocks, TheFirstOfEqualOnesWins) {
  ImageBuilder builder;
  for (std::uint32_t i = 0; i < 9; ++i) builder.global("A", i, builder.block(3));
  const HeapImage image = builder.build();
  const pb::HeapLargest largest = largest_answer(image, ShortestPaths(image), 2);
  EXPECT_EQ("global A, field 0 → block(3)", largest.blocks(0).path());
  EXPECT_EQ("global A, field 1 → block(3)", largest.blocks(1).path());
}

}  // namespace
}  // namespace memprofd
