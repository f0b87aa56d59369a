// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/ephemerons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/kit/random_image.h"

namespace memprofd {
namespace {

std::uint32_t ephemeron(ImageBuilder& builder, std::uint32_t data,
                        const std::vector<std::uint32_t>& keys) {
  const std::uint32_t block = builder.block(2 + keys.size(), 251, "ephemeron");
  builder.point(block, 1, data);
  for (const std::uint32_t key : keys) builder.point_weakly(block, key);
  return block;
}

std::vector<bool> kept(ImageBuilder& builder) {
  HeapImage image = builder.build();
  drop_data_without_keys(image);
  EXPECT_EQ(image.edges.to.size(), image.fields.size());
  return reached(image);
}

TEST(Ephemerons, KeepTheirDataWithTheirKeys) {
  ImageBuilder builder;
  const auto key = builder.block(1), other_key = builder.block(1), data = builder.block(1),
             behind = builder.block(1);
  builder.point(data, 0, behind);
  builder.global("Cache", 0, ephemeron(builder, data, {key, other_key}));
  builder.global("Cache", 1, key);
  EXPECT_FALSE(kept(builder)[data]);
  EXPECT_FALSE(kept(builder)[other_key]);
  builder.global("Cache", 2, other_key);
  EXPECT_TRUE(kept(builder)[data]);
  EXPECT_TRUE(kept(builder)[behind]);
}

TEST(Ephemerons, KeepNothingWhenNothingKeepsThem) {
  ImageBuilder builder;
  const auto key = builder.block(1), data = builder.block(1);
  ephemeron(builder, data, {key});
  builder.global("Cache", 1, key);
  EXPECT_FALSE(kept(builder)[data]);
}

TEST(Ephemerons, KeyThatItsOwnDataLeadsToIsNotKept) {
  ImageBuilder builder;
  const auto key = builder.block(1), data = builder.block(1);
  builder.point(data, 0, key);
  builder.global("Cache", 0, ephemeron(builder, data, {key}));
  EXPECT_FALSE(kept(builder)[data]);
  EXPECT_FALSE(kept(builder)[key]);
}

TEST(Ephemerons, KeepTheKeysOfEachOther) {
  ImageBuilder builder;
  constexpr std::uint32_t kLength = 1000;
  std::vector<std::uint32_t> chain;
  for (std::uint32_t i = 0; i <= kLength; ++i) chain.push_back(builder.block(1));
  for (std::uint32_t i = kLength; i > 0; --i) {
    builder.global("Cache", i, ephemeron(builder, chain[i], {chain[i - 1]}));
  }
  EXPECT_FALSE(kept(builder)[chain[1]]);
  builder.global("Cache", 0, chain[0]);
  EXPECT_TRUE(kept(builder)[chain[kLength]]);
}

TEST(Ephemerons, ForcedLazyKeyIsItsValue) {
  ImageBuilder builder;
  const auto value = builder.block(1), key = builder.block(1, 250), data = builder.block(1);
  builder.point(key, 0, value);
  builder.global("Cache", 0, ephemeron(builder, data, {key}));
  EXPECT_FALSE(kept(builder)[data]);
  builder.global("Cache", 1, value);
  EXPECT_TRUE(kept(builder)[data]);
}

// Kept blocks by definition: data joins until none is left to join.
std::vector<bool> by_definition(const HeapImage& image) {
  const auto is_ephemeron = [&](std::uint32_t block) {
    return std::ranges::any_of(image.weak, [&](const auto& weak) { return weak.block == block; });
  };
  std::vector<bool> seen(image.blocks());
  for (const ImageRoot& root : image.roots) seen[root.block] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::uint32_t block = 0; block < image.blocks(); ++block) {
      const bool follows = seen[block] && (!is_ephemeron(block) ||
                                           std::ranges::all_of(image.weak, [&](const auto& weak) {
                                             return weak.block != block || seen[weak.target];
                                           }));
      for (const std::uint32_t to : image.edges.of(block)) {
        if (!follows || seen[to]) continue;
        seen[to] = changed = true;
      }
    }
  }
  return seen;
}

TEST(Ephemerons, KeepWhatTheDefinitionSays) {
  std::mt19937 random(7);
  for (int i = 0; i < 2'000; ++i) {
    HeapImage image = random_image(random);
    for (std::uint32_t block = 0; block < image.blocks(); ++block) {
      for (std::uint32_t keys = random() % 3; keys > 0 && block % 2 == 0; --keys) {
        image.weak.push_back({block, static_cast<std::uint32_t>(random() % image.blocks())});
      }
    }
    const std::vector<bool> expected = by_definition(image);
    drop_data_without_keys(image);
    ASSERT_EQ(expected, reached(image)) << "image " << i;
  }
}

}  // namespace
}  // namespace memprofd
