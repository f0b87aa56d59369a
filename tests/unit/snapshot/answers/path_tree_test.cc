// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/path_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/snapshot/answers/root_tree.h"
#include "tests/kit/random_image.h"

namespace memprofd {
namespace {

using testing::ElementsAre;

// Each step of the tree with the blocks on it, in the tree's order.
std::vector<std::string> lines_of(const HeapImage& image) {
  const BlockClasses classes(image);
  const ShortestPaths paths(image);
  PathTree tree(image, classes, paths);
  for (const SampledBlock& sampled : image.sampled) {
    tree.add(sampled.block, sum_of(image, sampled));
  }
  tree.sum_up();
  const auto children = tree.children();
  std::vector<std::string> lines;
  std::vector<std::uint32_t> todo{0};
  while (!todo.empty()) {
    const std::uint32_t step = todo.back();
    todo.pop_back();
    todo.insert(todo.end(), children[step].rbegin(), children[step].rend());
    if (step == 0) continue;
    lines.push_back(std::to_string(tree.steps()[step].through.blocks) + tree.text(step));
  }
  return lines;
}

TEST(PathTree, FieldsHaveTheirNamesWhereTypesKnowThem) {
  ImageBuilder builder;
  const std::uint32_t table = builder.block(4), data = builder.block(9), text = builder.string(5);
  builder.root({.kind = RootKind::kGlobal, .owner = "Cache", .field = 2, .label = "table"}, table);
  builder.point(table, 1, data);
  builder.point(data, 3, text);
  builder.sample(text, 1, 0);
  HeapImage& image = builder.image();
  image.types.push_back(
      {.name = "Hashtbl.t", .fields = 4, .labels = {"size", "data", "seed", "initial_size"}});
  set_types(image, {1, 0, 0});
  EXPECT_THAT(lines_of(builder.build()), ElementsAre("1global Cache.table", "1 → Hashtbl.t",
                                                     "1.data → block(9)", "1 field 3 → string"));
  // Two types of one name, one of which has other labels.
  image.types.push_back({.name = "Hashtbl.t", .fields = 4, .labels = {"other"}});
  EXPECT_EQ("1 field 1 → block(9)", lines_of(builder.build())[2]);
}

TEST(PathTree, MergesWaysThroughATable) {
  ImageBuilder builder;
  const std::uint32_t table = builder.block(4);
  const std::uint32_t data = builder.block(64);
  builder.global("Cache", 2, table);
  builder.point(table, 1, data);
  for (std::uint32_t i = 0; i < 20; ++i) {
    const std::uint32_t bucket = builder.block(3);
    builder.point(data, 3 * i, bucket);
    builder.point(bucket, 1, builder.string(5));
    const std::uint32_t next = builder.block(3);
    builder.point(bucket, 2, next);
    const std::uint32_t value = builder.string(6 + i);
    builder.point(next, 1, value);
    builder.sample(value, 1, 0);
  }
  const std::uint32_t local = builder.string(3);
  builder.root({.kind = RootKind::kStack,
                .owner = "thread 7",
                .place = {.function = "Server.handle", .file = "server.ml", .line = 42}},
               local);
  builder.sample(local, 1, 0);
  EXPECT_THAT(lines_of(builder.build()),
              ElementsAre("20global Cache, field 2", "20 → block(4)", "20 field 1 → array",
                          "20[*] → block(3) up to ×2", "20 field 1 → string",
                          "1stack of thread 7, Server.handle server.ml:42", "1 → string"));
}

// None of them alone has one in a hundred of the blocks.
TEST(PathTree, ManyThreadsAtOnePlaceAreOneStep) {
  const auto lines_with = [](std::uint32_t threads) {
    ImageBuilder builder;
    for (std::uint32_t i = 0; i < threads; ++i) {
      const std::uint32_t events = builder.string(9);
      builder.root({.kind = RootKind::kStack,
                    .owner = "thread " + std::to_string(i),
                    .place = {.function = "Watch.loop", .file = "watch.ml", .line = 7}},
                   events);
      builder.sample(events, 1, 0);
    }
    builder.root({.kind = RootKind::kStack,
                  .owner = "thread 999",
                  .place = {.function = "Main.run", .file = "main.ml", .line = 1}},
                 builder.string(1));
    HeapImage image = builder.build();
    join_threads(image);
    EXPECT_EQ(image.root_names.back().owner, "thread 999");
    EXPECT_EQ(image.root_names.size(), threads > kFewThreads ? 2 : threads + 1);
    return lines_of(std::move(image));
  };
  EXPECT_THAT(lines_with(500),
              ElementsAre("500stack of 500 threads, Watch.loop watch.ml:7", "500 → string"));
  EXPECT_EQ(lines_with(3).size(), 6u) << "few have their own names";
}

TEST(PathTree, FramesOfAFiberAreNamed) {
  ImageBuilder builder;
  const std::uint32_t fibers = builder.block(100);
  builder.global("Scheduler", 0, fibers);
  for (std::uint32_t i = 0; i < 10; ++i) {
    const std::uint32_t fiber = builder.block(2, 245, "Promise.await");
    builder.point(fibers, i, fiber);
    for (std::uint32_t frame = 0; frame < 3; ++frame) {
      const std::uint32_t held = builder.block(3 + frame);
      builder.point(fiber, 2 + frame, held);
      builder.sample(held, 1, 0);
    }
  }
  HeapImage image = builder.build();
  image.locations = {{.function = "Promise.await"},
                     {.function = "Server.handle", .file = "server.ml", .line = 42}};
  image.sites.push_back({0, 1});  // and none for the third
  for (BlockShape& shape : image.shapes) {
    if (shape.tag == 245) shape.site = static_cast<std::uint32_t>(image.sites.size() - 1);
  }
  EXPECT_THAT(
      lines_of(image),
      ElementsAre("30global Scheduler, field 0", "30 → array", "30[*] → continuation Promise.await",
                  "10 stack, Promise.await → block(3)",
                  "10 stack, Server.handle server.ml:42 → block(4)", "10 stack → block(5)"));
}

TEST(PathTree, TheCellsOfAListAreOneStep) {
  ImageBuilder builder;
  std::uint32_t list = HeapImage::kNoBlock;
  for (int i = 0; i < 1'000; ++i) {
    const std::uint32_t element = builder.block(3, 1);
    builder.sample(element, 1, 0);
    list = builder.cell(element, list);
  }
  builder.global("Log", 0, list);
  EXPECT_THAT(lines_of(builder.build()),
              ElementsAre("1000global Log, field 0", "1000 → block(2) up to ×1000",
                          "1000 field 0 → block(3, tag 1)"));
}

std::uint32_t balanced(ImageBuilder& builder, int depth) {
  const std::uint32_t node = builder.block(5);
  builder.sample(node, 1, 0);
  if (depth == 0) return node;
  builder.point(node, 0, balanced(builder, depth - 1));
  builder.point(node, 3, balanced(builder, depth - 1));
  return node;
}

TEST(PathTree, TheNodesOfATreeAreOneStepWhateverTheirSide) {
  ImageBuilder builder;
  builder.global("Index", 1, balanced(builder, 10));
  EXPECT_THAT(lines_of(builder.build()),
              ElementsAre("2047global Index, field 1", "2047 → block(5) up to ×11"));
}

TEST(PathTree, TypesThatHoldEachOtherAreAFewSteps) {
  ImageBuilder builder;
  std::uint32_t above = builder.block(1);
  builder.global("Ast", 0, above);
  for (int i = 0; i < 300; ++i) {
    const std::uint32_t pair = builder.block(2, 1), record = builder.block(3, 2);
    builder.point(above, 0, pair);
    builder.point(pair, 1, record);
    above = record;
  }
  builder.sample(above, 1, 0);
  EXPECT_THAT(lines_of(builder.build()),
              ElementsAre("1global Ast, field 0", "1 → block(1)", "1 field 0 → block(2, tag 1)",
                          "1 field 1 → block(3, tag 2) up to ×300", "0 field 0 → block(2, tag 1)"));
}

// A list in each element of a list: the inner lists differ from the outer one.
TEST(PathTree, AListInAListIsAStepOfItsOwn) {
  ImageBuilder builder;
  std::uint32_t outer = HeapImage::kNoBlock;
  for (int i = 0; i < 10; ++i) {
    std::uint32_t inner = HeapImage::kNoBlock;
    for (int j = 0; j < 4; ++j) inner = builder.cell(builder.string(2), inner);
    builder.sample(inner, 1, 0);
    const std::uint32_t record = builder.block(3, 1);
    builder.point(record, 2, inner);
    outer = builder.cell(record, outer);
  }
  builder.global("Orders", 0, outer);
  EXPECT_THAT(lines_of(builder.build()),
              ElementsAre("10global Orders, field 0", "10 → block(2) up to ×10",
                          "10 field 0 → block(3, tag 1)", "10 field 2 → block(2)"));
}

TEST(PathTree, ALongWayThatRepeatsNothingEndsWhereTheTreeDoes) {
  ImageBuilder builder;
  const std::uint32_t first = builder.block(1);
  std::uint32_t last = first;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::uint32_t next = builder.block(1 + i % 30, 1 + i / 30);
    builder.point(last, 0, next);
    last = next;
  }
  builder.global("Odd", 0, first);
  builder.sample(last, 1, 0);
  const auto lines = lines_of(builder.build());
  EXPECT_EQ(48u, lines.size());
  EXPECT_TRUE(lines.back().ends_with(" → …")) << lines.back();
}

TEST(PathTree, NothingIsLostOrCountedTwice) {
  std::mt19937 random(1);
  for (int round = 0; round < 2'000; ++round) {
    const HeapImage image = random_image(random);
    const BlockClasses classes(image);
    const ShortestPaths paths(image);
    PathTree tree(image, classes, paths);
    std::uint64_t added = 0;
    std::vector<std::uint64_t> by_root(image.root_names.size());
    for (std::uint32_t i = 0; i < image.blocks(); ++i) {
      if (!paths.is_reachable(i)) continue;
      tree.add(i, {.blocks = 1u << i});
      added += 1u << i;
      std::uint32_t block = i;
      while (!paths.begins_at(block)) block = paths.block_before(block);
      by_root[paths.root_name_at(block)] += 1u << i;
    }
    tree.sum_up();
    ASSERT_EQ(added, tree.steps()[0].through.blocks);
    for (const PathStep& step : tree.steps()) {
      if (!step.is_root()) continue;
      ASSERT_EQ(by_root[step.block_class], step.through.blocks);
    }
  }
}

}  // namespace
}  // namespace memprofd
