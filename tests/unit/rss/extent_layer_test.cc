// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/extent_layer.h"

#include <gtest/gtest.h>

#include <random>

namespace memprofd {
namespace {

Extent extent(std::uint64_t begin, std::uint64_t end, RssClass kind) {
  return {.begin = begin, .end = end, .kind = kind};
}

std::vector<Extent> cut(std::span<const ExtentLayer* const> layers, std::uint64_t begin,
                        std::uint64_t end) {
  std::vector<Extent> pieces;
  cut_by_layers(layers, begin, end, [&](const Extent& piece) { pieces.push_back(piece); });
  return pieces;
}

TEST(ExtentLayer, NeighboursOfOneKindBecomeOne) {
  ExtentLayer layer;
  layer.add(extent(0, 10, RssClass::kMallocUsed));
  layer.add(extent(10, 20, RssClass::kMallocUsed));
  layer.add(extent(20, 30, RssClass::kMallocFree));
  layer.add(extent(40, 40, RssClass::kMallocFree));
  EXPECT_EQ(layer.extents(), (std::vector{extent(0, 20, RssClass::kMallocUsed),
                                          extent(20, 30, RssClass::kMallocFree)}));
}

TEST(ExtentLayer, WhatOverlapsGoesToTheFirst) {
  ExtentLayer layer;
  layer.add(extent(15, 30, RssClass::kMallocFree));
  layer.add(extent(0, 20, RssClass::kMallocUsed));
  layer.add(extent(5, 10, RssClass::kMallocCache));
  layer.seal();
  EXPECT_EQ(layer.extents(), (std::vector{extent(0, 20, RssClass::kMallocUsed),
                                          extent(20, 30, RssClass::kMallocFree)}));
  EXPECT_EQ(layer.find(19)->kind, RssClass::kMallocUsed);
  EXPECT_EQ(layer.find(20)->kind, RssClass::kMallocFree);
  EXPECT_EQ(layer.find(30), nullptr);
}

TEST(ExtentLayer, UpperLayersHoldAndLowerOnesFillTheGaps) {
  ExtentLayer below, above;
  below.add(extent(0, 50, RssClass::kStaticData));
  above.add(extent(10, 20, RssClass::kMallocUsed));
  above.add(extent(40, 60, RssClass::kMallocFree));
  const ExtentLayer* const layers[] = {&below, &above};
  EXPECT_EQ(
      cut(layers, 5, 70),
      (std::vector{extent(5, 10, RssClass::kStaticData), extent(10, 20, RssClass::kMallocUsed),
                   extent(20, 40, RssClass::kStaticData), extent(40, 60, RssClass::kMallocFree),
                   extent(60, 70, RssClass::kOther)}));
}

// Each byte is assigned once, whatever the layers claim.
TEST(ExtentLayer, PiecesAddUpForAnyLayers) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    ExtentLayer layers[3];
    for (ExtentLayer& layer : layers) {
      for (int i = 0; i < 40; ++i) {
        const std::uint64_t begin = random() % 1000;
        layer.add(
            extent(begin, begin + random() % 100, static_cast<RssClass>(random() % kRssClasses)));
      }
      layer.seal();
    }
    const ExtentLayer* const all[] = {&layers[0], &layers[1], &layers[2]};
    std::uint64_t next = 100;
    for (const Extent& piece : cut(all, 100, 900)) {
      ASSERT_EQ(piece.begin, next);
      ASSERT_GT(piece.end, piece.begin);
      next = piece.end;
    }
    ASSERT_EQ(next, 900u);
  }
}

}  // namespace
}  // namespace memprofd
