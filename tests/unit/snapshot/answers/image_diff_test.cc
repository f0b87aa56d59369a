// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/image_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

using testing::ElementsAre;

// A cache with that many strings, numbered from first_id, each sampled.
HeapImage cache(std::uint32_t strings, std::uint64_t first_id, std::uint32_t pid = 7) {
  ImageBuilder builder;
  builder.image().info.pid = pid;
  const std::uint32_t site = builder.site({{.function = "Cache.add"}});
  const std::uint32_t table = builder.block(100);
  builder.global("Cache", 2, table);
  builder.global("Config", 0, builder.block(3));
  for (std::uint32_t i = 0; i < strings; ++i) {
    const std::uint32_t string = builder.string(9);
    builder.point(table, i, string);
    builder.sample(string, 1, site, first_id + i);
  }
  builder.sample(builder.string(9), 1, site, 1'000);
  return builder.build();
}

ImageDiff diff_of(HeapImage before, HeapImage after) {
  return compare_images(summarize(before), summarize(after));
}

std::vector<std::string> names_of(const std::vector<DiffRow>& rows) {
  std::vector<std::string> names;
  for (const DiffRow& row : rows) names.push_back(row.name);
  return names;
}

TEST(ImageDiff, ListsTheLargestGrowthFirstAndOmitsEqualRows) {
  const ImageDiff diff = diff_of(cache(5, 1), cache(8, 3));
  EXPECT_THAT(names_of(diff.roots),
              ElementsAre("globals", "globals / Cache", "globals / Cache / field 2"));
  EXPECT_EQ(30, diff.roots[2].growth_words());
  EXPECT_EQ((BlockCount{6, 151}), diff.roots[2].before);
  EXPECT_THAT(names_of(diff.classes), ElementsAre("string"));
  EXPECT_EQ((BlockCount{8, 80}), diff.classes[0].after);
  ASSERT_EQ(4u, diff.totals.size());
  EXPECT_EQ(30, diff.totals[0].growth_words());
  EXPECT_EQ(0, diff.totals[1].growth_words());
}

TEST(ImageDiff, KnowsSampledBlocksAgain) {
  const ImageDiff diff = diff_of(cache(5, 1), cache(8, 3));  // 1 to 5, then 3 to 10
  ASSERT_TRUE(diff.same_process);
  ASSERT_EQ(1u, diff.sites.size());
  EXPECT_EQ("Cache.add", diff.sites[0].name);
  EXPECT_EQ(5u, diff.sites[0].before.blocks);
  EXPECT_EQ(8u, diff.sites[0].after.blocks);
  EXPECT_EQ(3u, diff.sites[0].stayed.blocks);
  EXPECT_DOUBLE_EQ(300, diff.sites[0].growth_words());
  // Two that went and five that came, each of 9,900 words squared.
  EXPECT_DOUBLE_EQ(8 * std::sqrt(7 * 9'900), diff.sites[0].growth_stderr_bytes());
}

TEST(ImageDiff, SitesThatHadAndHaveNothingAreLeftOut) {
  ImageBuilder gone, garbage;
  gone.sample(HeapImage::kNoBlock, 1, gone.site({{.function = "Parser.parse"}}), 1);
  garbage.sample(garbage.string(9), 1, garbage.site({{.function = "Parser.parse"}}), 2);
  EXPECT_THAT(diff_of(gone.build(), garbage.build()).sites, testing::IsEmpty());
}

TEST(ImageDiff, NumbersOfAnotherProcessMeanNothing) {
  const ImageDiff diff = diff_of(cache(5, 1), cache(8, 3, 8));
  EXPECT_FALSE(diff.same_process);
  EXPECT_EQ(0u, diff.sites[0].stayed.blocks);
}

TEST(ImageDiff, ShrinkingRowsAreLast) {
  ImageBuilder before;
  before.global("A", 0, before.block(30));
  before.global("B", 0, before.block(3));
  ImageBuilder after;
  after.global("B", 0, after.block(9));
  const ImageDiff diff = diff_of(before.build(), after.build());
  EXPECT_THAT(names_of(diff.roots), ElementsAre("globals / B", "globals / B / field 0", "globals",
                                                "globals / A", "globals / A / field 0"));
  EXPECT_EQ(-31, diff.roots.back().growth_words());
}

}  // namespace
}  // namespace memprofd
