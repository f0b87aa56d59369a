// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/sampled_sites.h"

#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

TEST(SampledSites, AreTheInnermostFramesWithWhatIsReachableFirst) {
  ImageBuilder builder;
  const Location add{.function = "Cache.add", .file = "cache.ml", .line = 41};
  const std::uint32_t from_f = builder.site({add, {.function = "F.f"}});
  const std::uint32_t from_g = builder.site({add, {.function = "G.g"}});
  const std::uint32_t parse = builder.site({{.function = "Order.parse"}});
  const std::uint32_t unknown = builder.site({});
  const std::uint32_t kept = builder.string(20), kept_too = builder.string(20);
  builder.global("Cache", 0, kept);
  builder.global("Cache", 1, kept_too);
  builder.sample(kept, 1, from_f);
  builder.sample(kept_too, 2, from_g);
  builder.sample(builder.string(20), 4, parse);
  builder.sample(HeapImage::kNoBlock, 1, unknown);
  const HeapImage image = builder.build();
  const auto rows = sum_sites(image, ShortestPaths(image));
  ASSERT_EQ(3u, rows.size());
  EXPECT_EQ("Cache.add cache.ml:41", rows[0].name);
  EXPECT_EQ(2u, rows[0].sums.reachable().blocks);
  EXPECT_DOUBLE_EQ(300, rows[0].sums.reachable().estimate.words);
  EXPECT_EQ("(unknown)", rows[1].name);
  EXPECT_EQ(1u, rows[1].sums.dead().blocks);
  EXPECT_EQ("Order.parse", rows[2].name);
  EXPECT_DOUBLE_EQ(400, rows[2].sums.garbage().estimate.words);
  EXPECT_EQ(0u, rows[2].sums.reachable().blocks);
}

TEST(SampledSites, ALargeBlockCountsByItsOwnSize) {
  ImageBuilder builder;
  const std::uint32_t small = builder.string(511), large = builder.string(512);
  const std::uint32_t huge = builder.string(99'999);
  const HeapImage image = builder.build();
  EXPECT_DOUBLE_EQ(700, sum_of(image, {.block = small, .samples = 7}).estimate.words);
  EXPECT_NEAR(513 / (1 - std::pow(0.99, 513)),
              sum_of(image, {.block = large, .samples = 7}).estimate.words, 1e-6);
  EXPECT_DOUBLE_EQ(100'000, sum_of(image, {.block = huge, .samples = 9}).estimate.words);
}

TEST(SampledSites, WithoutARateNothingIsEstimated) {
  ImageBuilder builder;
  builder.image().info.sampling_rate = 0;
  const std::uint32_t block = builder.string(5);
  const SampledSum sum = sum_of(builder.build(), {.block = block, .samples = 1});
  EXPECT_EQ(1u, sum.blocks);
  EXPECT_EQ(0, sum.estimate.words);
}

}  // namespace
}  // namespace memprofd
