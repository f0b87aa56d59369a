// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/garbage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

using testing::Optional;
using testing::SizeIs;

constexpr std::uint64_t kSecond = 1'000'000'000;

class GarbageAnswer : public testing::Test {
 protected:
  GarbageAnswer() {
    builder_.image().info.longest_wait_ns = 5 * kSecond;
    builder_.global("Cache", 0, builder_.block(1));
  }
  Garbage find() {
    image_ = builder_.build();
    return find_garbage(image_, ShortestPaths(image_));
  }

  ImageBuilder builder_;
  const std::uint32_t site_ = builder_.site({{.function = "Order.parse"}});
  HeapImage image_;
};

TEST_F(GarbageAnswer, IsUnreachable) {
  builder_.global("Cache", 1, builder_.string(9));
  builder_.sample(1, 1, site_, 1, kSecond);
  builder_.string(3);
  builder_.image().young = {{3, 4}};
  builder_.string(5);
  builder_.image().dead.add(252, 6, 10);
  const Garbage garbage = find();
  EXPECT_EQ((BlockCount{2, 10}), garbage.all);
  EXPECT_EQ((BlockCount{1, 6}), garbage.young);
  EXPECT_EQ((BlockCount{10, 70}), garbage.dead);
  EXPECT_THAT(garbage.sites, SizeIs(0)) << "the sampled one is reachable";
}

TEST_F(GarbageAnswer, AgesAreWeightedByWhatBlocksStandFor) {
  for (std::uint64_t age = 1; age <= 8; ++age) {
    builder_.sample(builder_.string(4), 1, site_, age, age * kSecond);
  }
  builder_.sample(builder_.string(4), 12, site_, 9, 9 * kSecond);
  const Garbage garbage = find();
  ASSERT_THAT(garbage.sites, SizeIs(1));
  const GarbageRow& row = garbage.sites[0];
  EXPECT_EQ("Order.parse", row.name);
  EXPECT_EQ(9u, row.sum.blocks);
  EXPECT_DOUBLE_EQ(2000, row.sum.estimate.words);
  EXPECT_THAT(row.ages.quantile(0.25), Optional(5 * kSecond));
  EXPECT_THAT(row.ages.quantile(0.4), Optional(8 * kSecond));
  EXPECT_THAT(row.ages.quantile(0.5), Optional(9 * kSecond));
  EXPECT_THAT(row.ages.quantile(0), Optional(kSecond));
  EXPECT_THAT(row.ages.longest(), Optional(9 * kSecond));
}

TEST_F(GarbageAnswer, WaitsNoLongerThanItIsOldOrACollectionWouldHaveLeftIt) {
  const std::uint32_t other = builder_.site({{.function = "Order.print"}});
  builder_.sample(builder_.string(4), 1, site_, 1, 2 * kSecond);
  builder_.sample(builder_.string(4), 2, other, 2, 3 * kSecond);
  builder_.sample(builder_.string(4), 2, other, 3, 9 * kSecond);
  const Garbage garbage = find();
  ASSERT_THAT(garbage.sites, SizeIs(2));
  EXPECT_EQ("Order.print", garbage.sites[0].name);
  EXPECT_THAT(garbage.sites[0].longest_wait_ns, Optional(5 * kSecond));
  EXPECT_THAT(garbage.sites[1].longest_wait_ns, Optional(2 * kSecond));
}

// A major collection has nothing to do with a minor heap.
TEST_F(GarbageAnswer, YoungBlocksWaitForTheNextMinorCollection) {
  builder_.sample(builder_.string(4), 1, site_, 1, 7 * kSecond);
  builder_.image().young = {{1, 2}};
  const Garbage garbage = find();
  ASSERT_THAT(garbage.sites, SizeIs(1));
  EXPECT_EQ(1u, garbage.sites[0].young.blocks);
  EXPECT_THAT(garbage.sites[0].longest_wait_ns, Optional(7 * kSecond));
}

TEST_F(GarbageAnswer, UnknownFactsAreNotReported) {
  const std::uint32_t gone = builder_.site({});
  builder_.sample(builder_.string(4), 1, gone);
  builder_.sample(builder_.string(4), 1, site_, 2, kSecond);
  builder_.sample(builder_.string(4), 1, site_, 3);
  builder_.sample(HeapImage::kNoBlock, 1, site_, 4, kSecond);
  Garbage garbage = find();
  ASSERT_THAT(garbage.sites, SizeIs(2));
  EXPECT_EQ(2u, garbage.sites[0].sum.blocks);
  EXPECT_THAT(garbage.sites[0].ages.longest(), Optional(kSecond));
  EXPECT_FALSE(garbage.sites[1].ages.quantile(0.5));
  EXPECT_THAT(garbage.sites[1].longest_wait_ns, Optional(5 * kSecond));
  builder_.image().info.longest_wait_ns = 0;
  garbage = find();
  EXPECT_FALSE(garbage.sites[0].longest_wait_ns) << "of one of both blocks nothing is known";
  EXPECT_FALSE(garbage.sites[1].longest_wait_ns);
}

}  // namespace
}  // namespace memprofd
