// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/container_growth.h"

#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

// A reference to a list of that many strings, and an unchanged variable.
HeapImage program(std::uint32_t strings) {
  ImageBuilder builder;
  const std::uint32_t site =
      builder.site({{.function = "Stdlib.List.cons"},
                    {.function = "Catalog.add", .file = "catalog.ml", .line = 31}});
  const std::uint32_t pages = builder.block(1);
  builder.root({.kind = RootKind::kGlobal, .owner = "Catalog", .field = 2, .label = "pages"},
               pages);
  builder.global("Config", 0, builder.block(3));
  std::uint32_t next = HeapImage::kNoBlock;
  for (std::uint32_t i = 0; i < strings; ++i) {
    const std::uint32_t string = builder.string(9);
    builder.sample(string, 1, site, i + 1);
    next = builder.cell(string, next);
  }
  builder.point(pages, 0, next);
  HeapImage image = builder.build();
  image.site_frame = SiteFrame::kApplication;
  return image;
}

std::vector<ContainerGrowth> growth(std::uint32_t before, std::uint32_t after) {
  HeapImage earlier = program(before), later = program(after);
  return container_growth(find_containers(earlier), find_containers(later));
}

TEST(ContainerGrowth, NamesTheVariableWhatItIsAndWhoFillsIt) {
  const std::vector<ContainerGrowth> rows = growth(5, 8);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].container.root, "global Catalog.pages");
  EXPECT_EQ(rows[0].container.kind, "list");
  EXPECT_EQ(rows[0].container.entries, 8u);
  EXPECT_EQ(rows[0].entries, 3);
  EXPECT_EQ(rows[0].words, 3u * (10 + 3));
  EXPECT_EQ(rows[0].container.site, "Catalog.add catalog.ml:31");
}

TEST(ContainerGrowth, ShrinkingAndConstantOnesAreOmitted) {
  EXPECT_TRUE(growth(8, 8).empty());
  EXPECT_TRUE(growth(8, 5).empty());
}

TEST(ContainerGrowth, OfStacksOnlyWhatWasThereBefore) {
  const Container before{.root = "stack of thread 3", .on_stack = true, .words = 600};
  Container after = before;
  after.words = 1000;
  EXPECT_EQ(container_growth({before}, {after}).size(), 1u);
  after.words = 2000;
  EXPECT_TRUE(container_growth({before}, {after}).empty()) << "a request that is being handled";
  EXPECT_TRUE(container_growth({}, {after}).empty());
}

TEST(ContainerGrowth, ANewVariableHasGrownByAllOfIt) {
  HeapImage later = program(4);
  const std::vector<ContainerGrowth> rows = container_growth({}, find_containers(later));
  ASSERT_EQ(rows.size(), 2u);  // Config is not below a fiftieth of pages
  EXPECT_EQ(rows[0].container.root, "global Catalog.pages");
  EXPECT_EQ(rows[0].words, rows[0].container.words);
  EXPECT_EQ(rows[1].container.root, "global Config, field 0");
}

}  // namespace
}  // namespace memprofd
