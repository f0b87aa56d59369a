// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/why_outside.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/snapshot/answers/retained.h"
#include "daemon/snapshot/answers/tree_rows.h"
#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

using testing::SizeIs;

bool any(const std::string&) { return true; }

// Two streams in a list that a module holds, one that nothing leads to, an abstract block.
class WhyOutsideTest : public testing::Test {
 protected:
  WhyOutsideTest() {
    const std::uint32_t streams[] = {builder_.block(1, 255, "zip"), builder_.block(1, 255, "zip"),
                                     builder_.block(1, 255, "zip")};
    const std::uint32_t abstract = builder_.block(1, 251);
    const std::uint32_t last = builder_.cell(streams[1]);
    builder_.global("Cache", 0, builder_.cell(streams[0], last));
    builder_.global("Other", 1, abstract);
    image_ = builder_.build();
    image_.chunk_bytes = {{streams[0], {1000, 800}},
                          {streams[1], {500, 100}},
                          {streams[2], {70, 0}},
                          {abstract, {300, 300}}};
  }

  ImageBuilder builder_;
  HeapImage image_;
};

TEST_F(WhyOutsideTest, ReportsClassesAndPaths) {
  const WhyOutside why(image_, any);
  ASSERT_THAT(why.classes(), SizeIs(2));
  const OutsideRow& row = why.classes()[0];
  EXPECT_EQ(row.name, "custom zip");
  EXPECT_EQ(row.reachable.blocks, 2u);
  EXPECT_EQ(row.reachable.bytes, 1500u);
  EXPECT_EQ(row.reachable.resident, 900u);
  EXPECT_EQ(row.garbage.blocks, 1u);
  EXPECT_EQ(row.garbage.bytes, 70u);
  EXPECT_EQ(why.tree().steps()[0].through.blocks, 3u);
  const auto lines = path_lines(why.tree(), {});
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines[0].text, testing::HasSubstr("global Cache, field 0"));
  EXPECT_EQ(why.tree().steps()[lines[0].item].through.estimate.bytes(), 1500);
  EXPECT_EQ(why.tree().steps()[lines[0].item].through.estimate.stderr_bytes(), 0);
}

TEST_F(WhyOutsideTest, TakesThoseThatAreWanted) {
  const WhyOutside why(image_, [](const std::string& name) { return name == "abstract"; });
  ASSERT_THAT(why.classes(), SizeIs(1));
  EXPECT_EQ(why.classes()[0].reachable.bytes, 300u);
  EXPECT_EQ(why.tree().steps()[0].through.blocks, 1u);
}

// The largest holder comes first, whether inside the heap or outside.
TEST_F(WhyOutsideTest, RootsRetainIt) {
  const std::uint32_t string = builder_.string(100);
  builder_.global("Text", 0, string);
  const auto chunk_bytes = image_.chunk_bytes;
  image_ = builder_.build();
  image_.chunk_bytes = chunk_bytes;
  const RetainedTable table = find_retained(image_, {});
  EXPECT_EQ(table.rows[0].outside_bytes, 1800u);
  const auto children = table.children();
  const auto& modules = children[children[0][0]];
  ASSERT_THAT(modules, SizeIs(3));
  EXPECT_EQ(table.rows[modules[0]].name, "Cache");
  EXPECT_EQ(table.rows[modules[0]].outside_bytes, 1500u);
  EXPECT_EQ(table.rows[modules[0]].words, 10u);
  EXPECT_EQ(table.rows[modules[1]].name, "Text");
  const auto lines = retained_lines(table, children[0], {.limit = 1});
  std::uint64_t left_out = 0;
  for (const TreeLine& line : lines) left_out += line.more_outside_bytes;
  EXPECT_GE(left_out, 300u) << "what Other has";
}

}  // namespace
}  // namespace memprofd
