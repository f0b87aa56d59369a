// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/snapshot/heap_walk.h"
#include "tests/kit/fake_heap.h"

namespace memprofd {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

std::vector<std::uint32_t> edges_of(const HeapGraph& graph, std::uint32_t block) {
  const auto edges = graph.edges.of(block);
  return {edges.begin(), edges.end()};
}

TEST(BlockIndex, NumbersBlocksByAddressAndFindsThem) {
  FakeChunks heap;
  // Enough blocks for bits in several words.
  std::vector<std::vector<std::uint64_t>> blocks;
  for (std::uint64_t i = 0; i < 300; ++i) blocks.push_back(block(i % 7 + 1, 0));
  heap.put_chunk(joined(blocks));
  heap.put(std::vector<std::uint64_t>(5'000));
  heap.put_chunk(joined(blocks));
  const auto map = heap.map();
  BlockIndex index(*map);
  std::vector<std::uint64_t> addresses;
  ASSERT_TRUE(walk_heap(heap.memory, *map, [&](const HeapRegion&, const BlockPart& part) {
                if (part.state != BlockState::kUsed) return;
                addresses.push_back(part.address);
                index.add(part.address);
              }).ok());
  ASSERT_TRUE(index.number_blocks());
  ASSERT_THAT(addresses, SizeIs(600));
  ASSERT_EQ(600u, index.size());
  for (std::uint32_t i = 0; i < 600; ++i) {
    EXPECT_EQ(i, index.find(addresses[i] + 8));
    EXPECT_EQ(addresses[i], index.address_of(i));
    EXPECT_EQ(BlockIndex::kNone, index.find(addresses[i]));
    EXPECT_EQ(BlockIndex::kNone, index.find(addresses[i] + 9));
    EXPECT_EQ(i, index.find_before(addresses[i] + 8));
    EXPECT_EQ(i == 0 || i == 300 ? BlockIndex::kNone : i - 1, index.find_before(addresses[i]));
  }
  for (const std::uint64_t outside :
       {std::uint64_t{0}, std::uint64_t{8}, map->regions[0].begin, map->regions[0].end() + 8,
        map->regions[1].end() + 8, ~std::uint64_t{7}}) {
    EXPECT_EQ(BlockIndex::kNone, index.find(outside)) << outside;
  }
}

TEST(HeapGraph, HasEveryPointerToABlock) {
  FakeChunks heap;
  const std::uint64_t chunk =
      heap.put_chunk(joined({block(3, 0), block(2, 252), block(1, 17), block(2, 0, kBlue)}));
  const std::uint64_t string = chunk + 4 * 8;
  const std::uint64_t last = chunk + 7 * 8;
  heap.memory.poke(chunk + 8, string + 8);
  heap.memory.poke(chunk + 16, last + 8);
  heap.memory.poke(chunk + 24, last + 8 + 16);  // a free block
  heap.memory.poke(string + 8, chunk + 8);      // bytes that look like a pointer
  heap.memory.poke(last + 8, chunk + 16);       // into the middle of a block
  const auto graph = build_heap_graph(heap.memory, *heap.map());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->words, ElementsAre(4, 3, 2));
  EXPECT_THAT(graph->tags, ElementsAre(0, 252, 17));
  EXPECT_THAT(edges_of(*graph, 0), ElementsAre(1, 2));
  EXPECT_THAT(edges_of(*graph, 1), ElementsAre());
  EXPECT_THAT(edges_of(*graph, 2), ElementsAre());
  EXPECT_EQ(1u, graph->held_by(string + 8));
  EXPECT_EQ(BlockIndex::kNone, graph->held_by(3));
  EXPECT_EQ(BlockIndex::kNone, graph->held_by(0));
}

TEST(HeapGraph, APointerIntoAClosureHoldsAllOfIt) {
  FakeChunks heap;
  const std::uint64_t chunk = heap.put_chunk(joined({block(6, kClosureTag), block(2, 0)}));
  heap.memory.poke(chunk + 4 * 8, header(4, kInfixTag));
  heap.memory.poke(chunk + 8 * 8, chunk + 5 * 8);
  heap.memory.poke(chunk + 9 * 8, chunk + 7 * 8);  // behind its last word: the header that follows
  const auto graph = build_heap_graph(heap.memory, *heap.map());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(edges_of(*graph, 1), ElementsAre(0));
}

TEST(HeapGraph, LeavesOutWhatIsDead) {
  FakePools heap;
  const std::uint64_t pool = heap.put_pool(3, {block(3, 1, 0), block(3, 1, FakePools::kGarbage)});
  const std::uint64_t large = heap.put_large(block(200, 0, 0));
  heap.memory.poke(pool + 40, pool + 32 + 32 + 8);
  heap.memory.poke(pool + 48, large + 24);
  heap.memory.poke(large + 24, pool + 40);
  const auto graph = build_heap_graph(heap.memory, *heap.map());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(2u, graph->index.size());
  EXPECT_THAT(edges_of(*graph, 0), ElementsAre(1));
  EXPECT_THAT(edges_of(*graph, 1), ElementsAre(0));
}

// Its fields come in several parts.
TEST(HeapGraph, HasAllPointersOfALongArray) {
  FakeChunks heap;
  constexpr std::uint64_t kFields = 3 * HeapWindow::kWords;
  const std::uint64_t chunk = heap.put_chunk(joined({block(kFields, 0), block(1, 0)}));
  const std::uint64_t last = chunk + (kFields + 1) * 8;
  for (std::uint64_t i = 0; i < kFields; i += HeapWindow::kWords / 2) {
    heap.memory.poke(chunk + 8 + i * 8, last + 8);
  }
  const auto graph = build_heap_graph(heap.memory, *heap.map());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->edges.of(0), SizeIs(6));
  EXPECT_THAT(graph->edges.of(1), SizeIs(0));
}

}  // namespace
}  // namespace memprofd
