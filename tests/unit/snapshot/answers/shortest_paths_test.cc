// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/shortest_paths.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kit/random_image.h"

namespace memprofd {
namespace {

// Number of pointers between the nearest root and each block, by relaxation until nothing changes.
std::vector<std::uint32_t> distances(const HeapImage& image) {
  std::vector<std::uint32_t> distance(image.blocks(), ~0u);
  for (const ImageRoot& root : image.roots) distance[root.block] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::uint32_t from = 0; from < image.blocks(); ++from) {
      if (distance[from] == ~0u) continue;
      for (const std::uint32_t to : image.edges.of(from)) {
        if (distance[to] <= distance[from] + 1) continue;
        distance[to] = distance[from] + 1;
        changed = true;
      }
    }
  }
  return distance;
}

void expect_shortest(const HeapImage& image) {
  const ShortestPaths paths(image);
  const auto distance = distances(image);
  const auto nearest = paths.nearest_roots();
  const auto is_reached = reached(image);
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    ASSERT_EQ(is_reached[block], paths.is_reachable(block));
    if (!paths.is_reachable(block)) {
      ASSERT_EQ(ShortestPaths::kUnreachable, nearest[block]);
      continue;
    }
    std::uint32_t first = block;
    while (!paths.begins_at(first)) first = paths.block_before(first);
    ASSERT_EQ(paths.root_name_at(first), nearest[block]);
    if (paths.begins_at(block)) {
      ASSERT_EQ(0u, distance[block]);
      const std::uint32_t name = paths.root_name_at(block);
      ASSERT_TRUE(std::any_of(image.roots.begin(), image.roots.end(), [&](const ImageRoot& root) {
        return root.block == block && root.name == name;
      }));
    } else {
      const std::uint32_t before = paths.block_before(block);
      ASSERT_EQ(distance[block], distance[before] + 1);
      const auto held = image.edges.of(before);
      ASSERT_NE(held.end(), std::find(held.begin(), held.end(), block));
    }
  }
}

TEST(ShortestPaths, OfRandomHeaps) {
  std::mt19937 random(1);
  for (int round = 0; round < 3'000; ++round) {
    ASSERT_NO_FATAL_FAILURE(expect_shortest(random_image(random))) << "round " << round;
  }
}

TEST(ShortestPaths, AGlobalGoesBeforeAStackAsNear) {
  ImageBuilder builder;
  const std::uint32_t shared = builder.block(1);
  const std::uint32_t table = builder.block(4);
  const std::uint32_t local = builder.block(4);
  builder.point(local, 0, shared);
  builder.point(table, 0, shared);
  builder.root({.kind = RootKind::kStack, .owner = "thread 7"}, local);
  builder.global("Cache", 0, table);
  const HeapImage image = builder.build();
  const ShortestPaths paths(image);
  EXPECT_EQ(table, paths.block_before(shared));
  EXPECT_EQ("Cache", image.root_names[paths.root_name_at(table)].owner);
}

}  // namespace
}  // namespace memprofd
