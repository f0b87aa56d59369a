// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/collections.h"

#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

class CollectionsTest : public ::testing::Test {
 protected:
  std::uint32_t list(int cells) {
    std::uint32_t next = HeapImage::kNoBlock;
    for (int i = 0; i < cells; ++i) next = heap_.cell(heap_.string(1), next);
    return next;
  }
  // Chains of that many bindings in the first buckets.
  std::uint32_t table(std::uint64_t buckets, const std::vector<int>& chains) {
    const std::uint32_t data = heap_.block(buckets);
    for (std::uint32_t i = 0; i < chains.size(); ++i) {
      std::uint32_t next = HeapImage::kNoBlock;
      for (int n = 0; n < chains[i]; ++n) {
        const std::uint32_t binding = heap_.block(3);
        if (next != HeapImage::kNoBlock) heap_.point(binding, 2, next);
        next = binding;
      }
      if (next != HeapImage::kNoBlock) heap_.point(data, i, next);
    }
    const std::uint32_t record = heap_.block(4);
    heap_.point(record, 1, data);
    return record;
  }
  std::uint32_t tree(int height, std::uint64_t fields) {
    if (height == 0) return HeapImage::kNoBlock;
    const std::uint32_t node = heap_.block(fields);
    const std::uint32_t left = tree(height - 1, fields);
    const std::uint32_t right = tree(height - 1, fields);
    if (left != HeapImage::kNoBlock) heap_.point(node, 0, left);
    if (right != HeapImage::kNoBlock) {
      heap_.point(node, static_cast<std::uint32_t>(fields - 2), right);
    }
    return node;
  }

  ImageBuilder heap_;
};

TEST_F(CollectionsTest, ListsAreCounted) {
  const std::uint32_t long_one = list(100'000), one = list(1);
  const HeapImage image = heap_.build();
  const auto found = find_collection(image, long_one);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Collection::Kind::kList);
  EXPECT_EQ(found->size, 100'000u);
  EXPECT_FALSE(find_collection(image, one)) << "may be anything";
  EXPECT_EQ(reachable_words(image, long_one), 100'000u * (3 + 2));
}

TEST_F(CollectionsTest, ARingIsNotAList) {
  const std::uint32_t first = heap_.block(2), second = heap_.block(2);
  heap_.point(first, 1, second);
  heap_.point(second, 1, first);
  EXPECT_FALSE(find_collection(heap_.build(), first));
}

TEST_F(CollectionsTest, TablesAreCounted) {
  const std::uint32_t full = table(512, std::vector<int>(300, 2)), some = table(8, {0, 3, 20});
  const std::uint32_t empty = table(16, {}), odd = table(7, {1});
  const HeapImage image = heap_.build();
  EXPECT_EQ(find_collection(image, full)->size, 600u);
  const auto found = find_collection(image, some);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Collection::Kind::kTable);
  EXPECT_EQ(found->size, 23u);
  EXPECT_EQ(found->buckets, 8u);
  EXPECT_EQ(found->empty_buckets, 6u);
  EXPECT_EQ(found->longest_chain, 20u);
  std::vector<std::uint64_t> chains(17);
  chains[0] = 6, chains[3] = 1, chains[16] = 1;
  EXPECT_EQ(found->chains, chains);
  EXPECT_EQ(find_collection(image, empty)->empty_buckets, 16u);
  EXPECT_FALSE(find_collection(image, odd));
}

TEST_F(CollectionsTest, TreesAreCounted) {
  const std::uint32_t map = tree(15, 5), set = tree(3, 4), other = tree(3, 6);
  const std::uint32_t uneven = heap_.block(5);
  heap_.point(uneven, 0, tree(3, 5));
  const HeapImage image = heap_.build();
  EXPECT_EQ(find_collection(image, map)->size, 32'767u);
  EXPECT_EQ(find_collection(image, set)->size, 7u);
  EXPECT_FALSE(find_collection(image, other));
  EXPECT_FALSE(find_collection(image, uneven));
}

TEST_F(CollectionsTest, GlobalsAreFound) {
  const std::uint32_t held = list(2);
  heap_.global("Shop", 3, held);
  const HeapImage image = heap_.build();
  EXPECT_EQ(block_of_global(image, "Shop", 3), held);
  EXPECT_EQ(block_of_global(image, "Shop", 4), HeapImage::kNoBlock);
  EXPECT_EQ(block_of_global(image, "Sho", 3), HeapImage::kNoBlock);
}

}  // namespace
}  // namespace memprofd
