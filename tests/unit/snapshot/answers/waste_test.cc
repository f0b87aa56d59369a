// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/waste.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/image_builder.h"

namespace memprofd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class Waste : public testing::Test {
 protected:
  // Like Hashtbl: that many buckets, with entries in the first of them.
  std::uint32_t table(std::uint32_t buckets, std::uint32_t entries) {
    const std::uint32_t table = builder_.block(4), data = builder_.block(buckets);
    builder_.point(table, 1, data);
    for (std::uint32_t i = 0; i < entries; ++i) builder_.point(data, i, builder_.block(3));
    return table;
  }
  std::vector<WasteRow> find() {
    image_ = builder_.build();
    return find_waste(image_, ShortestPaths(image_));
  }

  ImageBuilder builder_;
  HeapImage image_;
};

TEST_F(Waste, ATableWithMostBucketsEmpty) {
  builder_.global("Cache", 2, table(4096, 100));
  builder_.global("Other", 0, table(1024, 1));
  const auto rows = find();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(WastePattern::kSparseTables, rows[0].pattern);
  EXPECT_EQ(2u, rows[0].blocks);
  EXPECT_EQ(4097u + 1025u, rows[0].words);
  EXPECT_EQ(4096u - 256u + 1024u - 16u, rows[0].words_to_win);
  ASSERT_THAT(rows[0].places, SizeIs(2));
  EXPECT_EQ("Cache", image_.root_names[rows[0].places[0].root_name].owner);
  EXPECT_EQ(1008u, rows[0].places[1].words_to_win);
}

TEST_F(Waste, StringsThatAreThereAlready) {
  for (std::uint32_t i = 0; i < 3; ++i) builder_.global("A", i, builder_.text("application/json"));
  builder_.global("B", 0, builder_.text("application/jsom"));
  builder_.text("application/json");  // garbage
  const std::uint32_t cut = builder_.text("text"), other_cut = builder_.text("text");
  builder_.global("B", 1, cut);
  builder_.global("B", 2, other_cut);
  for (BlockContents& of : builder_.image().contents) of.length += of.block >= cut ? 70'000 : 0;
  const auto rows = find();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(WastePattern::kEqualStrings, rows[0].pattern);
  EXPECT_EQ(2u, rows[0].blocks);
  EXPECT_EQ(2u * 4u, rows[0].words);
  EXPECT_EQ(2u * 4u, rows[0].words_to_win);
  ASSERT_THAT(rows[0].places, SizeIs(2));
  EXPECT_EQ("A", image_.root_names[rows[0].places[0].root_name].owner);
}

TEST_F(Waste, StringsWithTheFingerprintOfOneOfTheirSize) {
  for (std::uint32_t i = 0; i < 4; ++i) {
    builder_.global("A", i, builder_.string(i == 3 ? 5 : 2));
    builder_.image().fingerprints.push_back({i, i == 2 ? 8u : 7u});
  }
  const auto rows = find();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(WastePattern::kEqualStrings, rows[0].pattern);
  EXPECT_EQ(1u, rows[0].blocks);
  EXPECT_EQ(3u, rows[0].words_to_win);
}

TEST_F(Waste, BytesMayBeWrittenTo) {
  for (std::uint32_t i = 0; i < 4; ++i) builder_.global("A", i, builder_.text("draft"));
  builder_.image().types = {{}, {.name = "bytes"}};
  set_types(builder_.image(), {0, 1, 1, 0});
  const auto rows = find();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(1u, rows[0].blocks);
}

TEST_F(Waste, BuffersAreWrittenTo) {
  for (const bool has_inner : {false, true}) {
    const std::uint32_t buffer = builder_.block(has_inner ? 3 : 4);
    const std::uint32_t inner = has_inner ? builder_.block(2) : buffer;
    if (has_inner) builder_.point(buffer, 0, inner);
    builder_.point(inner, 0, builder_.text("draft"));
    builder_.point(buffer, has_inner ? 2 : 3, builder_.text("draft"));
    builder_.global("Http", buffer, buffer);
    builder_.image().buffers.push_back({buffer, 5});
  }
  builder_.global("Http", 1, builder_.text("draft"));
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(Waste, BuffersOfWhichMostIsNotUsed) {
  const auto buffer = [&](std::uint64_t used, std::uint64_t bytes, bool has_inner) {
    const std::uint32_t block = builder_.block(has_inner ? 3 : 4);
    const std::uint32_t inner = has_inner ? builder_.block(2) : block;
    builder_.point(inner, 0, builder_.string(bytes / 8 + 1));
    if (has_inner) builder_.point(block, 0, inner);
    builder_.image().buffers.push_back({block, used});
    return block;
  };
  builder_.global("Http", 0, buffer(80, 8000, false));
  builder_.global("Http", 1, buffer(3900, 8000, true));
  builder_.global("Http", 2, buffer(4100, 8000, true));  // full enough
  builder_.global("Http", 3, buffer(0, 400, false));     // small enough
  buffer(80, 8000, true);                                // garbage
  const std::uint32_t strange = builder_.block(4);       // as of a damaged file
  builder_.image().buffers.push_back({strange, 0});
  builder_.global("Http", 4, strange);
  const auto rows = find();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(WastePattern::kLargeBuffers, rows[0].pattern);
  EXPECT_EQ(2u, rows[0].blocks);
  EXPECT_EQ(2u * 1002, rows[0].words);
  EXPECT_EQ(1002u - 12 + 1002 - 489, rows[0].words_to_win);
  ASSERT_THAT(rows[0].places, SizeIs(2));
  EXPECT_EQ(0u, image_.root_names[rows[0].places[0].root_name].field);
}

TEST_F(Waste, NoTable) {
  builder_.global("A", 0, table(4096, 2048));  // full enough
  builder_.global("A", 1, table(16, 1));       // as small as can be
  builder_.global("A", 2, table(1000, 5));     // no power of two
  table(4096, 1);                              // garbage
  const std::uint32_t record = table(4096, 1);
  builder_.point(record, 0, builder_.string(1));  // something where the size would be
  builder_.global("A", 3, record);
  const std::uint32_t rows = builder_.block(4), data = builder_.block(64);
  builder_.point(rows, 1, data);
  builder_.point(data, 0, builder_.block(2));  // no bucket
  builder_.global("A", 4, rows);
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(Waste, AnArrayThatIsFilledWithOneBlock) {
  const std::uint32_t array = builder_.block(100), filler = builder_.block(1);
  for (std::uint32_t i = 0; i < 90; ++i) builder_.point(array, i, filler);
  for (std::uint32_t i = 90; i < 100; ++i) builder_.point(array, i, builder_.block(2));
  builder_.global("Buffer", 0, array);
  const std::uint32_t other = builder_.block(100);
  for (std::uint32_t i = 0; i < 100; ++i) {
    builder_.point(other, i, i < 60 ? filler : builder_.block(2));
  }
  builder_.global("Half", 0, other);
  builder_.global("Ints", 0, builder_.block(100));
  const auto rows = find();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(WastePattern::kFilledArrays, rows[0].pattern);
  EXPECT_EQ(1u, rows[0].blocks);
  EXPECT_EQ(90u, rows[0].words_to_win);
}

TEST_F(Waste, NumbersWithABlockOfTheirOwn) {
  const std::uint32_t record = builder_.block(9);
  builder_.point(record, 0, builder_.boxed_float());
  builder_.point(record, 1, builder_.boxed_float());
  builder_.point(record, 2, builder_.block(2, 255, "_j"));
  builder_.point(record, 3, builder_.block(2, 255, "_bigarr02"));
  builder_.point(record, 4, builder_.block(2, 255, "_i"));
  builder_.point(record, 5, builder_.block(2, 255, "_n"));
  builder_.global("Stats", 0, record);
  const auto rows = find();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(WastePattern::kBoxedIntegers, rows[0].pattern);
  EXPECT_EQ(9u, rows[0].words_to_win);
  EXPECT_EQ(WastePattern::kBoxedFloats, rows[1].pattern);
  EXPECT_EQ(4u, rows[1].words_to_win);
}

TEST_F(Waste, ATableWithoutAnEntry) {
  builder_.global("Cache", 2, table(16, 0));
  builder_.global("Cache", 3, table(64, 0));
  const auto rows = find();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(WastePattern::kEmptyTables, rows[0].pattern);
  EXPECT_EQ(2u, rows[0].blocks);
  EXPECT_EQ(15u + 63u, rows[0].words_to_win);
}

TEST_F(Waste, ARecordThatLooksLikeATable) {
  builder_.image().types.push_back({.name = "Shop.t", .labels = {"n", "all", "x", "y"}});
  builder_.global("Shop", 0, table(4096, 0));
  set_types(builder_.image(), {1});
  EXPECT_THAT(find(), IsEmpty());
  builder_.image().types[1].labels[0] = "size";
  EXPECT_THAT(find(), SizeIs(1));
}

TEST_F(Waste, ListsOfOneElement) {
  const std::uint32_t record = builder_.block(9);
  const std::uint32_t last = builder_.cell(builder_.string(1));
  builder_.point(record, 0, builder_.cell(builder_.string(1), last));
  builder_.point(record, 1, builder_.cell(builder_.string(1)));
  builder_.point(record, 2, builder_.block(2));  // of an integer
  builder_.global("Tags", 0, record);
  EXPECT_THAT(find(), IsEmpty()) << "pairs look like cells";
  builder_.image().types.push_back({.name = "string list", .fields = 2});
  set_types(builder_.image(), std::vector<std::uint32_t>(builder_.image().blocks(), 1));
  const auto rows = find();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(WastePattern::kListsOfOne, rows[0].pattern);
  EXPECT_EQ(2u, rows[0].blocks);
  EXPECT_EQ(6u, rows[0].words_to_win);
}

TEST_F(Waste, AChainOfClosures) {
  const auto chain = [this](std::uint32_t length, std::uint32_t end) {
    for (; length > 0; --length) {
      const std::uint32_t closure = builder_.block(4, 247, "Hooks.then_");
      builder_.point(closure, 3, end);
      end = closure;
    }
    return end;
  };
  const std::uint32_t stop = builder_.block(3, 247, "Hooks.stop");
  builder_.global("Hooks", 0, chain(100, stop));
  builder_.global("Hooks", 1, chain(5, stop));
  const auto rows = find();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(WastePattern::kClosureChains, rows[0].pattern);
  EXPECT_EQ(100u, rows[0].blocks);
  EXPECT_EQ(500u, rows[0].words);
  EXPECT_EQ(495u, rows[0].words_to_win);
}

}  // namespace
}  // namespace memprofd
