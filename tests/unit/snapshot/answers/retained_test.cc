// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/retained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "tests/kit/random_image.h"

namespace memprofd {
namespace {

using testing::ElementsAre;
using Rows = std::map<std::string, std::uint64_t>;  // words, by names from the first row on

Rows rows_of(const RetainedTable& table) {
  std::vector<std::string> names{""};
  Rows rows;
  for (std::uint32_t i = 1; i < table.rows.size(); ++i) {
    const RetainedRow& row = table.rows[i];
    names.push_back(names[row.parent] + "/" + row.name);
    if (row.blocks != 0) rows[names[i]] = row.words;
  }
  return rows;
}

std::vector<std::string> names_of(const RootName& name) {
  std::vector<std::string> names{std::string("/") + root_kind_text(name.kind)};
  names.push_back(names.back() + "/" + name.owner);
  if (name.field != RootName::kNoField) {
    names.push_back(names.back() + "/field " + std::to_string(name.field));
  }
  return names;
}

class Truth {
 public:
  explicit Truth(const HeapImage& image)
      : image_(image),
        classes_(image),
        all_(reached(image)),
        nearest_(ShortestPaths(image).nearest_roots()) {}

  // Computes rows by definition: rows of roots, and the first rows of blocks below each.
  Rows rows() {
    for (const RootName& name : image_.root_names) {
      for (const std::string& row : names_of(name)) add_roots(row);
    }
    for (std::uint32_t block = 0; block < image_.blocks(); ++block) {
      if (!all_[block] || has_dominator(block)) continue;
      const std::string above = last_roots_with(block);
      rows_[above + "/" + classes_.text(classes_.of(block))] += words_lost(reached(image_, block));
    }
    std::erase_if(rows_, [](const auto& row) { return row.second == 0; });
    return rows_;
  }

 private:
  std::uint64_t words_lost(const std::vector<bool>& still) const {
    std::uint64_t words = 0;
    for (std::uint32_t i = 0; i < image_.blocks(); ++i) {
      if (all_[i] && !still[i]) words += image_.shape(i).words;
    }
    return words;
  }
  std::vector<bool> without_roots(const std::string& row) const {
    return reached(image_, HeapImage::kNoBlock, [&](const RootName& name) {
      const auto names = names_of(name);
      return std::find(names.begin(), names.end(), row) == names.end();
    });
  }
  void add_roots(const std::string& row) {
    if (without_.emplace(row, without_roots(row)).second) {
      rows_[row] = words_lost(without_[row]);
    }
  }
  bool has_dominator(std::uint32_t block) const {
    for (std::uint32_t other = 0; other < image_.blocks(); ++other) {
      if (other != block && !reached(image_, other)[block]) return true;
    }
    return false;
  }
  // Returns the longest row without whose roots the block is unreachable. If deeper rows exist
  // below it, several of them keep the block, and it counts in a row "several".
  std::string last_roots_with(std::uint32_t block) {
    std::string last;
    for (const auto& [row, still] : without_) {
      if (!still[block] && row.size() > last.size()) last = row;
    }
    for (const auto& [row, unused] : without_) {
      if (row.size() <= last.size() || row.rfind(last + "/", 0) != 0) continue;
      last += "/several, nearest " + root_text(image_.root_names[nearest_[block]]);
      rows_[last] += words_lost(reached(image_, block));
      return last;
    }
    return last;
  }

  const HeapImage& image_;
  const BlockClasses classes_;
  const std::vector<bool> all_;
  const std::vector<std::uint32_t> nearest_;
  std::map<std::string, std::vector<bool>> without_;
  Rows rows_;
};

TEST(Retained, OfRandomHeapsIsWhatGoesWithARow) {
  std::mt19937 random(1);
  for (int round = 0; round < 2'000; ++round) {
    HeapImage image = random_image(random);
    const EdgeLists before = image.edges;
    const RetainedTable table = find_retained(image, {.depth = 1});
    ASSERT_EQ(Truth(image).rows(), rows_of(table)) << "round " << round;
    ASSERT_EQ(before.first, image.edges.first);
    ASSERT_EQ(before.to, image.edges.to);
  }
}

TEST(Retained, UnfoldsFromRootsToClassesOfBlocks) {
  ImageBuilder builder;
  const std::uint32_t table = builder.block(4);
  const std::uint32_t data = builder.block(64);
  const std::uint32_t shared = builder.string(9);
  builder.point(table, 1, data);
  for (std::uint32_t i = 0; i < 5; ++i) {
    const std::uint32_t bucket = builder.block(3);
    builder.point(data, i, bucket);
    builder.point(bucket, 0, builder.string(3));
    builder.point(bucket, 1, shared);
  }
  builder.global("Cache", 2, table);
  builder.global("Cache", 5, shared);
  builder.block(99);  // garbage
  HeapImage image = builder.build();
  const Rows rows = rows_of(find_retained(image, {.depth = 3}));
  const std::uint64_t buckets = 5 * (4 + 4);
  const Rows expected{{"/globals", 5 + 65 + buckets + 10},
                      {"/globals/Cache", 5 + 65 + buckets + 10},
                      {"/globals/Cache/several, nearest global Cache, field 5", 10},
                      {"/globals/Cache/several, nearest global Cache, field 5/string", 10},
                      {"/globals/Cache/field 2", 5 + 65 + buckets},
                      {"/globals/Cache/field 2/block(4)", 5 + 65 + buckets},
                      {"/globals/Cache/field 2/block(4)/array", 65 + buckets},
                      {"/globals/Cache/field 2/block(4)/array/block(3)", buckets}};
  EXPECT_EQ(expected, rows);
}

TEST(Retained, AListIsOneRowHoweverLong) {
  constexpr std::uint32_t kCells = 200'000;
  ImageBuilder builder;
  std::uint32_t list = HeapImage::kNoBlock;
  for (std::uint32_t i = 0; i < kCells; ++i) list = builder.cell(builder.boxed_float(), list);
  builder.global("Log", 0, list);
  HeapImage image = builder.build();
  const RetainedTable table = find_retained(image, {.depth = 3});
  const auto& last = table.rows.back();
  EXPECT_EQ("float", last.name);
  EXPECT_EQ(kCells, last.blocks);
  EXPECT_EQ("block(2)", table.rows[last.parent].name);
  EXPECT_EQ(2 * kCells, table.rows[last.parent].blocks);
  EXPECT_EQ("field 0", table.rows[table.rows[last.parent].parent].name);
}

TEST(Retained, BlocksWithoutARowCountInTheOneAbove) {
  ImageBuilder builder;
  const std::uint32_t top = builder.block(20);
  for (std::uint32_t i = 0; i < 20; ++i) builder.point(top, i, builder.block(i + 3, 1));
  builder.global("M", 0, top);
  HeapImage image = builder.build();
  const RetainedTable table = find_retained(image, {.depth = 3, .max_rows = 9});
  EXPECT_EQ(9u, table.rows.size());
  EXPECT_GT(table.blocks_without_row, 10u);
  EXPECT_EQ(21u, table.rows[0].blocks);
  EXPECT_EQ(21u, table.rows[4].blocks);
  EXPECT_EQ(table.blocks_without_row + 1, table.rows[4].own_blocks);
}

TEST(Retained, RootsAreFoundByTheirFullName) {
  ImageBuilder builder;
  builder.global("Cache", 0, builder.block(1));
  builder.global("Cache", 1, builder.block(1));
  builder.root({.kind = RootKind::kStack, .owner = "thread 1"}, builder.block(1));
  HeapImage image = builder.build();
  const RetainedTable table = find_retained(image, {});
  const auto named = [&](const std::string& part) {
    std::vector<std::string> names;
    for (const std::uint32_t row : table.roots_named(
             [&](const std::string& name) { return name.find(part) != std::string::npos; })) {
      names.push_back(table.full_name(row));
    }
    return names;
  };
  EXPECT_THAT(named("Cache"), ElementsAre("globals / Cache"));
  EXPECT_THAT(named("field"),
              ElementsAre("globals / Cache / field 0", "globals / Cache / field 1"));
  EXPECT_THAT(named("s"), ElementsAre("all roots"));
  EXPECT_THAT(named("block"), ElementsAre());
}

TEST(Retained, TheLargestIsFirst) {
  ImageBuilder builder;
  builder.global("Small", 0, builder.block(1));
  builder.global("Large", 0, builder.block(9));
  HeapImage image = builder.build();
  const RetainedTable table = find_retained(image, {});
  const auto children = table.children();
  std::vector<std::string> names;
  for (const std::uint32_t row : children[children[0][0]]) names.push_back(table.rows[row].name);
  EXPECT_THAT(names, ElementsAre("Large", "Small"));
}

}  // namespace
}  // namespace memprofd
