// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/image_census.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/random_image.h"

namespace memprofd {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

std::vector<std::string> names_of(const std::vector<CensusRow>& rows) {
  std::vector<std::string> names;
  for (const CensusRow& row : rows) names.push_back(row.name);
  return names;
}

ImageCensus census_of(const HeapImage& image) { return count_image(image, ShortestPaths(image)); }

TEST(ImageCensus, ReportsTheKindsOfBlocks) {
  ImageBuilder builder;
  builder.block(2);
  builder.block(3);
  builder.block(3, 7);
  builder.block(100);
  builder.block(4, 247, "Server.handle");
  builder.block(5, 247, "Server.handle");
  builder.block(3, 247);
  builder.block(4, 248);
  builder.block(9, 252);
  builder.block(2, 255, "_bigarr02");
  builder.block(1, 246);
  builder.block(3, 245);
  HeapImage image = builder.build();
  EXPECT_THAT(names_of(census_of(image).by_class),
              ElementsAre("array", "closure Server.handle", "string", "object(4)", "block(3)",
                          "block(3, tag 7)", "closure", "continuation", "block(2)",
                          "custom _bigarr02", "lazy"));
  EXPECT_THAT(names_of(census_of(image).by_tag),
              ElementsAre("block", "closure", "string", "object", "block, tag 7", "continuation",
                          "custom", "lazy"));
  image.info.ocaml_version = "4.14.1";  // without effects
  EXPECT_EQ("block(3, tag 245)", census_of(image).by_class[7].name);
}

TEST(ImageCensus, ReportsTheTypedShareOfReachableBlocks) {
  ImageBuilder builder;
  builder.global("Shop", 0, builder.block(2));
  builder.global("Shop", 1, builder.block(3));
  builder.block(4);  // garbage
  builder.global("Shop", 2, builder.block(5, 247));
  HeapImage image = builder.build();
  image.types = {{}, {.name = "Shop.order", .fields = 2}, {.is_function = true}};
  set_types(image, {1, 0, 1, 2});  // the last is of functions that have several types
  image.types_found = {.disagreed = 7, .modules = 1, .modules_without_files = 2};
  const ImageCensus census = census_of(image);
  EXPECT_EQ(1u, census.types.typed.blocks);
  EXPECT_EQ(3u, census.types.typed.words);
  EXPECT_EQ(7u, census.types.found.disagreed);
  EXPECT_THAT(names_of(census.by_class), ElementsAre("Shop.order", "closure", "block(3)"));
}

TEST(ImageCensus, SeparatesMemoryOutsideTheHeap) {
  ImageBuilder builder;
  builder.global("M", 0, builder.block(6, 255, "_bigarr02"));
  builder.block(7, 255, "_bigarr02");
  builder.global("M", 1, builder.block(2, 255, "_chan"));
  HeapImage image = builder.build();
  image.shapes[0].outside_bytes = 8000;
  image.shapes[1].outside_bytes = 400;
  image.shapes[2].outside_bytes = 65536;
  const ImageCensus census = census_of(image);
  EXPECT_EQ(73536u, census.total.outside_reachable_bytes);
  EXPECT_EQ(400u, census.total.outside_garbage_bytes);
  EXPECT_EQ("custom _bigarr02", census.by_class[0].name);
  EXPECT_EQ(8000u, census.by_class[0].outside_reachable_bytes);
  EXPECT_EQ((BlockCount{2, 10}), census.total.reachable) << "not among the heap's words";
}

TEST(ImageCensus, SeparatesReachableGarbageAndDead) {
  ImageBuilder builder;
  const std::uint32_t top = builder.block(3);
  builder.point(top, 0, builder.string(1));
  builder.global("M", 0, top);
  const std::uint32_t lost = builder.block(3);
  builder.point(lost, 0, lost);
  builder.image().dead.add(0, 3, 5);
  builder.image().young = {{1, 3}};
  const ImageCensus census = census_of(builder.build());
  EXPECT_EQ((BlockCount{2, 6}), census.total.reachable);
  EXPECT_EQ((BlockCount{1, 4}), census.total.garbage);
  EXPECT_EQ((BlockCount{5, 20}), census.total.dead);
  EXPECT_EQ((BlockCount{2, 6}), census.young);
  EXPECT_THAT(names_of(census.by_size), ElementsAre("2 words", "4 words"));
  EXPECT_EQ((BlockCount{7, 28}), census.by_size[1].all());
  EXPECT_EQ((BlockCount{1, 4}), census.by_size[1].garbage);
}

TEST(ImageCensus, SizesFromSeventeenWordsOnAreRanges) {
  ImageBuilder builder;
  for (const std::uint64_t words : {16, 17, 32, 33, 64, 65}) builder.string(words - 1);
  EXPECT_THAT(names_of(census_of(builder.build()).by_size),
              ElementsAre("16 words", "17 to 32 words", "33 to 64 words", "65 to 128 words"));
}

TEST(ImageCensus, FreeMemoryByPowersOfTwo) {
  ImageBuilder builder;
  EXPECT_EQ(0, census_of(builder.build()).fragmentation());
  auto& free = builder.image().free;
  free.add(0, 2, 10);
  free.add(0, 3, 4);
  free.add(0, 4, 2);
  free.add(0, 160);
  const ImageCensus census = census_of(builder.build());
  EXPECT_EQ((BlockCount{17, 200}), census.free);
  ASSERT_EQ(3u, census.free_sizes.size());
  EXPECT_EQ(2u, census.free_sizes[0].most_words);
  EXPECT_EQ((BlockCount{6, 20}), census.free_sizes[1].count);
  EXPECT_EQ(256u, census.free_sizes[2].most_words);
  EXPECT_THAT(census.fragmentation(), DoubleEq(0.2));
}

TEST(ImageCensus, AddsUpForRandomHeaps) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const HeapImage image = random_image(random);
    const ImageCensus census = census_of(image);
    const auto is_reached = reached(image);
    BlockCount reachable;
    BlockCount garbage;
    for (std::uint32_t i = 0; i < image.blocks(); ++i) {
      (is_reached[i] ? reachable : garbage).add({1, image.shape(i).words});
    }
    for (const auto* rows : {&census.by_tag, &census.by_class, &census.by_size}) {
      CensusRow sum;
      for (const CensusRow& row : *rows) {
        sum.reachable.add(row.reachable);
        sum.garbage.add(row.garbage);
      }
      ASSERT_EQ(reachable, sum.reachable);
      ASSERT_EQ(garbage, sum.garbage);
    }
    ASSERT_EQ(reachable, census.total.reachable);
  }
}

}  // namespace
}  // namespace memprofd
