// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/why.h"

#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

TEST(Why, TakesTheBlocksOfSitesThatAreWanted) {
  ImageBuilder builder;
  const std::uint32_t wanted = builder.site({{.function = "Cache.add"}});
  const std::uint32_t other = builder.site({{.function = "Log.line"}});
  const std::uint32_t unseen = builder.site({{.function = "Never"}});
  const std::uint32_t kept = builder.string(9), logged = builder.string(9);
  builder.global("Cache", 0, kept);
  builder.global("Log", 0, logged);
  builder.sample(kept, 3, wanted);
  builder.sample(builder.string(9), 2, wanted);
  builder.sample(HeapImage::kNoBlock, 1, wanted);
  builder.sample(logged, 9, other);
  const HeapImage image = builder.build();
  std::vector<bool> sites(3);
  sites[wanted] = sites[unseen] = true;
  const Why why(image, sites);
  ASSERT_EQ(1u, why.sites().size());
  EXPECT_EQ("Cache.add", why.sites()[0].name);
  EXPECT_EQ(1u, why.sums().reachable().blocks);
  EXPECT_EQ(3u, why.sums().reachable().estimate.samples);
  EXPECT_EQ(2u, why.sums().garbage().estimate.samples);
  EXPECT_EQ(1u, why.sums().dead().estimate.samples);
  EXPECT_EQ(1u, why.tree().steps()[0].through.blocks);
  ASSERT_EQ(3u, why.tree().steps().size());
  EXPECT_EQ("global Cache, field 0", why.tree().text(1));
}

}  // namespace
}  // namespace memprofd
