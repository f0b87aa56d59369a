// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_census.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/fake_heap.h"

namespace memprofd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

HeapCensus census_of(const FakeMemory& memory, const HeapMap& map) {
  HeapCensus census;
  EXPECT_TRUE(walk_heap(memory, map, census).ok());
  return census;
}

TEST(SizeTable, KeepsEachSizeApart) {
  SizeTable table;
  for (const std::uint64_t fields : {31, 32, 32, 33, 1 << 30}) table.add(255, fields);
  table.add(0, 32);
  EXPECT_THAT(table.rows(), ElementsAre(SizeRow{0, 32, 1}, SizeRow{255, 31, 1}, SizeRow{255, 32, 2},
                                        SizeRow{255, 33, 1}, SizeRow{255, 1 << 30, 1}));
  EXPECT_EQ(2u, table.blocks(255, 32));
  EXPECT_EQ(1u, table.blocks(255, 31));
  EXPECT_EQ(0u, table.blocks(254, 33));
}

TEST(HeapCensus, HasTheNumbersOfGcStatInOCaml4) {
  FakeChunks heap;
  const std::uint64_t chunk = heap.put_chunk(
      joined({block(2, 17), block(0, 0, kWhite), block(9, 0, kBlue), block(2, 17, kWhite)}));
  heap.put_minor_heap(block(5, 3, kWhite));
  heap.sweep_from(chunk + 8 * 14);
  const auto map = heap.map();
  const HeapCensus census = census_of(heap.memory, *map);
  EXPECT_EQ((BlockCount{1, 3}), census.major(BlockState::kUsed));
  EXPECT_EQ((BlockCount{1, 3}), census.major(BlockState::kDead));
  EXPECT_EQ((BlockCount{1, 1}), census.major(BlockState::kFragment));
  EXPECT_EQ((BlockCount{2, 10 + 512 - 17}), census.major(BlockState::kFree));
  EXPECT_EQ(512u - 17, census.largest_free_words());
  EXPECT_EQ((BlockCount{1, 6}), census.minor());
  EXPECT_THAT(census.used().rows(), ElementsAre(SizeRow{3, 5, 1}, SizeRow{17, 2, 1}));
  EXPECT_THAT(census.dead().rows(), ElementsAre(SizeRow{17, 2, 1}));
  EXPECT_TRUE(census.check(*map).ok());
}

TEST(HeapCensus, IsComparedWithTheRuntimesCountsInOCaml5) {
  FakePools heap;
  const std::uint64_t pool = heap.put_pool(3, {block(3, 1, 0), block(1, 2, FakePools::kGarbage)});
  heap.put_orphan(1, {block(1, 1, 0)});
  const std::uint64_t large = heap.put_large(block(200, 0, 0));
  const auto map = heap.map();
  const HeapCensus census = census_of(heap.memory, *map);
  EXPECT_EQ((BlockCount{3, 4 + 2 + 201}), census.major(BlockState::kUsed));
  EXPECT_TRUE(census.check(*map).ok()) << census.check(*map);

  heap.memory.poke(pool + 32, header(2, 1, 0));
  EXPECT_THAT(std::string(census_of(heap.memory, *map).check(*map).message()),
              HasSubstr("its slots are 3 blocks of 7 words, the runtime counts 3 of 8"));
  heap.memory.poke(pool + 32, header(3, 1, 0));
  HeapMap without = *map;
  without.regions.pop_back();
  EXPECT_EQ(large + 16, map->regions.back().begin);
  EXPECT_THAT(std::string(census_of(heap.memory, without).check(without).message()),
              HasSubstr("its large blocks are 0 blocks of 0 words, the runtime counts 1 of 203"));
}

TEST(HeapCensus, IsComparedWithTheRuntimesWordsInOCaml4) {
  FakeChunks heap;
  heap.put_chunk(block(2, 17));
  auto map = heap.map();
  const HeapCensus census = census_of(heap.memory, *map);
  EXPECT_TRUE(census.check(*map).ok());
  map->sums.heap_words += 1;
  EXPECT_THAT(std::string(census.check(*map).message()),
              HasSubstr("have 512 words, the runtime counts 513"));
}

}  // namespace
}  // namespace memprofd
