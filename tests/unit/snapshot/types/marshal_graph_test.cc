// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/marshal_graph.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <string>

#include "tests/kit/marshal_bytes.h"

namespace memprofd {
namespace {

using marshal::block;
using marshal::integer;
using marshal::shared;
using marshal::text;

// Compressed form of OCaml 5.1 and later: lengths have seven bits per byte.
std::string compressed(const std::string& value) {
  std::string data(ZSTD_compressBound(value.size()), '\0');
  data.resize(ZSTD_compress(data.data(), data.size(), value.data(), value.size(), 1));
  const auto length = [](std::size_t bytes) {
    return std::string{static_cast<char>(0x80 | bytes >> 7), static_cast<char>(bytes & 0x7f)};
  };
  const std::string lengths = length(data.size()) + length(value.size()) + std::string(3, '\0');
  return big_endian(0x8495a6bd, 4) + static_cast<char>(5 + lengths.size()) + lengths + data;
}

TEST(MarshalGraph, HasIntegersTextsAndBlocks) {
  const std::string bytes = marshalled(block(3, {integer(-7), text("a name"), block(0, {"\x45"})}));
  const auto graph = MarshalGraph::read(bytes + "behind");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const MarshalValue root = graph->root();
  EXPECT_TRUE(root.is(3));
  EXPECT_EQ(3u, root.size());
  EXPECT_EQ(-7, root.field(0).integer());
  EXPECT_EQ("a name", root.field(1).text());
  EXPECT_EQ(5, root.field(2).field(0).integer());
  EXPECT_EQ(bytes.size(), *MarshalGraph::size_of(bytes + "behind"));
}

TEST(MarshalGraph, ReturnsNothingForMissingValues) {
  const auto graph = MarshalGraph::read(marshalled(block(0, {integer(1)})));
  ASSERT_TRUE(graph.ok());
  const MarshalValue nothing = graph->root().field(7).field(1);
  EXPECT_FALSE(nothing.is_block());
  EXPECT_EQ(0, nothing.integer());
  EXPECT_EQ("", graph->root().text());
  EXPECT_EQ(-1, MarshalValue().tag());
  EXPECT_EQ(0u, MarshalValue().size());
}

// Objects count when they begin: the outer block, the text, the inner block.
TEST(MarshalGraph, KnowsASharedBlockAgain) {
  const auto graph = MarshalGraph::read(
      marshalled(block(0, {text("x"), block(0, {shared(2)}), shared(1), shared(3)})));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const MarshalValue root = graph->root();
  EXPECT_EQ("x", root.field(1).field(0).text());
  EXPECT_EQ(root.field(1).identity(), root.field(2).identity());
  EXPECT_EQ(root.identity(), root.field(3).identity());
}

TEST(MarshalGraph, SkipsNumbersAndCountsThem) {
  const std::string boxed = '\x19' + std::string("_j") + '\0' + std::string(8, 'x');
  const auto graph = MarshalGraph::read(marshalled(
      block(0, {boxed, '\x0c' + std::string(8, 'f'),
                '\x0e' + big_endian(2, 1) + std::string(16, 'f'), text("last"), shared(1)})));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ("last", graph->root().field(4).text());
}

TEST(MarshalGraph, ReadsCompressedData) {
  // Shared objects are named by their numbers, from 0 on.
  const std::string value = block(0, {text(std::string(200, 'z')), integer(9), shared(1)});
  const auto graph = MarshalGraph::read(compressed(value));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(std::string(200, 'z'), graph->root().field(0).text());
  EXPECT_EQ(9, graph->root().field(1).integer());
  EXPECT_EQ(graph->root().field(0).identity(), graph->root().field(2).identity());
}

TEST(MarshalGraph, RefusesDamagedData) {
  const std::string good = marshalled(block(0, {text("abc"), integer(1)}));
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_FALSE(MarshalGraph::read(good.substr(0, bytes)).ok()) << bytes;
  }
  const std::string huge_block = '\x13' + big_endian(~0ull, 8);
  for (const std::string& value :
       {std::string("\x10"), shared(1), huge_block, '\x15' + big_endian(1ull << 60, 8),
        '\x16' + big_endian(1ull << 61, 8), '\x19' + std::string("_other") + '\0'}) {
    EXPECT_FALSE(MarshalGraph::read(marshalled(value)).ok());
  }
  std::string small = compressed(text("abc"));
  small[7] = '\xff';  // more than the data could give
  EXPECT_FALSE(MarshalGraph::read(small).ok());
}

TEST(MarshalGraph, EndsAListThatLeadsBackIntoItself) {
  const auto graph = MarshalGraph::read(marshalled(block(0, {integer(1), shared(1)})));
  ASSERT_TRUE(graph.ok());
  int cells = 0;
  for_each_in_list(graph->root(), [&](MarshalValue) { ++cells; });
  EXPECT_EQ(kMaxListCells, cells);
}

}  // namespace
}  // namespace memprofd
