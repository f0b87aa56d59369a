// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/discover/target_memory.h"
#include "tests/kit/asked_memory.h"
#include "tests/kit/fake_heap.h"

namespace memprofd {
namespace {

using testing::HasSubstr;

void expect_refused(const absl::StatusOr<HeapMap>& map, const std::string& text) {
  ASSERT_FALSE(map.ok());
  EXPECT_EQ(absl::StatusCode::kDataLoss, map.status().code());
  EXPECT_THAT(std::string(map.status().message()), HasSubstr(text));
}

class ChunksOfEachRelease : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(ChunksOfEachRelease, AreListedByWhatTheRuntimeCounts) {
  FakeChunks heap(GetParam().first, static_cast<std::uint64_t>(GetParam().second));
  const std::uint64_t first = heap.put_chunk(block(3, 0));
  const std::uint64_t second = heap.put_chunk(block(700, 0));
  const auto map = heap.map();
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(2u, map->regions.size());
  EXPECT_EQ(first, map->regions[0].begin);
  EXPECT_EQ(512u, map->regions[0].words);
  EXPECT_EQ(second, map->regions[1].begin);
  EXPECT_EQ(1024u, map->regions[1].words);
  EXPECT_EQ(1536u, map->sums.heap_words);
}

INSTANTIATE_TEST_SUITE_P(HeapMap, ChunksOfEachRelease,
                         testing::Values(std::pair("4.11.1", 32), std::pair("4.12.0", 48),
                                         std::pair("4.13.1", 48), std::pair("4.14.1", 56)));

TEST(HeapMap, ChunksThatDoNotAddUpAreRefused) {
  for (const auto& [chunks, words] :
       {std::pair(1, 0), std::pair(-1, 0), std::pair(0, 1), std::pair(0, -1), std::pair(0, -512)}) {
    FakeChunks heap;
    heap.put_chunk(block(3, 0));
    heap.put_chunk(block(3, 0));
    heap.add_to_sums(static_cast<std::uint64_t>(chunks), static_cast<std::uint64_t>(words));
    expect_refused(heap.map(), "no list of");
  }
}

TEST(HeapMap, ACyclicListOfChunksEnds) {
  FakeChunks heap;
  const std::uint64_t first = heap.put_chunk(block(3, 0));
  const std::uint64_t second = heap.put_chunk(block(3, 0));
  heap.memory.poke(second - 48 + 24, first);
  heap.add_to_sums(1'000'000, std::uint64_t{1} << 50);
  const int before = heap.memory.reads;
  expect_refused(heap.map(), "no list of");
  EXPECT_LT(heap.memory.reads - before, 20);
}

TEST(HeapMap, AnAbsurdNumberOfChunksIsRefused) {
  FakeChunks heap;
  heap.put_chunk(block(3, 0));
  heap.add_to_sums(std::uint64_t{1} << 40, 0);
  expect_refused(heap.map(), "the runtime counts 1099511627777 chunks");
}

TEST(HeapMap, OneListForEachOwner) {
  FakePools heap;
  const std::uint64_t with_room = heap.put_pool(2, {block(2, 0)});
  const std::uint64_t full = heap.put_pool(31, {block(127, 0)}, 1);
  const std::uint64_t orphan = heap.put_orphan(0, {});
  const std::uint64_t large = heap.put_large(block(500, 252));
  const auto map = heap.map();
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(4u, map->regions.size());
  EXPECT_EQ(with_room + 32, map->regions[0].begin);  // 4,092 is 1,364 * 3
  EXPECT_EQ(4092u, map->regions[0].words);
  EXPECT_EQ(3u, map->regions[0].slot_words);
  EXPECT_EQ(full + 8 * (4 + 4092 % 128), map->regions[1].begin);
  EXPECT_EQ(128u * 31, map->regions[1].words);
  EXPECT_EQ(orphan + 32, map->regions[2].begin);
  EXPECT_EQ(HeapRegion::kNoDomain, map->regions[2].domain);
  EXPECT_EQ(large + 16, map->regions[3].begin);
  EXPECT_EQ(501u, map->regions[3].words);
  EXPECT_EQ(3 * 4096u + 503u, map->sums.heap_words);
  EXPECT_EQ(2u, map->sums.pool_blocks);
  EXPECT_EQ(131u, map->sums.pool_block_words);
}

TEST(HeapMap, AdjacentChunksAreListedWithFewReads) {
  FakePools heap;
  for (std::uint32_t i = 0; i < 2'000; ++i) heap.put_pool(2 + i % 9, {block(2, 0)}, i % 4);
  for (int i = 0; i < 2'000; ++i) heap.put_large(block(150, 252));
  const AskedMemory memory(heap.memory);
  const auto map = map_heap(memory, heap.layout(), std::vector<std::uint64_t>{FakeHeap::kState});
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(4'000u, map->regions.size());
  EXPECT_LT(memory.times, 200);
}

// Reads slightly more than the listed pools.
TEST(HeapMap, OtherMemoryBesidePoolsIsRarelyRead) {
  FakePools heap;
  for (int i = 0; i < 200; ++i) {
    heap.put_pool(2, {block(2, 0)});
    heap.put(std::vector<std::uint64_t>(512));  // the next one is no whole number of pools away
  }
  const AskedMemory memory(heap.memory);
  ASSERT_TRUE(map_heap(memory, heap.layout(), std::vector<std::uint64_t>{FakeHeap::kState}).ok());
  const int before = heap.memory.reads;
  ASSERT_TRUE(map_heap(memory, heap.layout(), std::vector<std::uint64_t>{FakeHeap::kState}).ok());
  EXPECT_LT(heap.memory.reads - before, 2'000);
}

TEST(HeapMap, PoolsThatWereTakenOverMayHaveNoOwner) {
  FakePools heap;
  const std::uint64_t pool = heap.put_pool(2, {block(2, 0)});
  heap.memory.poke(pool + 16, std::uint64_t{0});
  EXPECT_TRUE(heap.map().ok());
  heap.memory.poke(pool + 16, FakeHeap::kState + 8);
  expect_refused(heap.map(), "does not belong to its list");
}

TEST(HeapMap, ListsOfPoolsThatDoNotAddUpAreRefused) {
  FakePools wrong_class;
  const std::uint64_t pool = wrong_class.put_pool(2, {block(2, 0)});
  wrong_class.memory.poke(pool + 24, std::uint32_t{3});
  expect_refused(wrong_class.map(), "does not belong to its list");

  FakePools round;
  const std::uint64_t first = round.put_pool(2, {block(2, 0)});
  round.memory.poke(first, first);
  expect_refused(round.map(), "has no end");

  FakePools lacks;
  lacks.put_pool(2, {block(2, 0)});
  lacks.add_to(lacks.heap_state() + kHeapStats + kStatPoolWords, 4096);
  expect_refused(lacks.map(), "lack 4096 words of pools");

  FakePools large;
  const std::uint64_t block_at = large.put_large(block(500, 0));
  large.memory.poke(block_at + 8, block_at);
  expect_refused(large.map(), "has no end");

  FakePools longer;
  const std::uint64_t longer_at = longer.put_large(block(500, 0));
  longer.memory.poke(longer_at + 16, header(501, 0));
  expect_refused(longer.map(), "does not belong to its list");
}

TEST(HeapMap, ACyclicListOfPoolsEndsWhateverTheCount) {
  FakePools heap;
  const std::uint64_t last = heap.put_pool(2, {block(2, 0)});
  for (int i = 0; i < 3; ++i) heap.put_pool(2, {block(2, 0)});
  heap.memory.poke(last, heap.put_pool(2, {block(2, 0)}));
  heap.add_to(heap.heap_state() + kHeapStats + kStatPoolWords, std::uint64_t{1} << 50);
  const int before = heap.memory.reads;
  expect_refused(heap.map(), "has no end");
  EXPECT_LT(heap.memory.reads - before, 30);
}

TEST(HeapMap, AHeapOfAnotherDomainIsRefused) {
  FakePools heap;
  heap.memory.poke(heap.heap_state() + kHeapOwner, std::uint64_t{FakeHeap::kState + 8});
  expect_refused(heap.map(), "is not of the domain");
}

TEST(HeapMap, TheMinorHeapIsWhatIsInUseOfIt) {
  FakeChunks heap;
  heap.put_chunk(block(3, 0));
  heap.put_minor_heap(joined({block(2, 0), block(1, 252)}));
  const auto map = heap.map();
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(2u, map->regions.size());
  EXPECT_EQ(RegionKind::kMinor, map->regions[1].kind);
  EXPECT_EQ(5u, map->regions[1].words);

  heap.poke_state(heap.abi.young_ptr, heap.memory.end() + 8);
  expect_refused(heap.map(), "its minor heap");
  heap.poke_state(heap.abi.young_ptr, heap.memory.end() - 9);
  expect_refused(heap.map(), "its minor heap");
}

TEST(HeapMap, PartsThatOverlapAreRefused) {
  FakeChunks heap;
  const std::uint64_t chunk = heap.put_chunk(block(3, 0));
  heap.poke_state(heap.abi.young_ptr, chunk + 8);
  heap.poke_state(heap.abi.young_alloc_end, chunk + 64);
  expect_refused(heap.map(), "two parts of it share");
}

TEST(HeapMap, ColoursMeanWhatTheyMeanToTheCollector) {
  const HeapColours marking{};
  const auto chunk = [](const HeapColours& colours, std::uint64_t address, std::uint64_t word) {
    return colours.state_of(RegionKind::kChunk, address, word);
  };
  EXPECT_EQ(BlockState::kUsed, chunk(marking, 8, header(1, 0, kWhite)));
  EXPECT_EQ(BlockState::kUsed, chunk(marking, 8, header(1, 0, kBlack)));
  EXPECT_EQ(BlockState::kFree, chunk(marking, 8, header(1, 0, kBlue)));
  EXPECT_EQ(BlockState::kFragment, chunk(marking, 8, header(0, 0, kWhite)));
  const HeapColours sweeping{.unswept = 16};
  EXPECT_EQ(BlockState::kUsed, chunk(sweeping, 8, header(1, 0, kWhite)));
  EXPECT_EQ(BlockState::kDead, chunk(sweeping, 16, header(1, 0, kWhite)));
  EXPECT_EQ(BlockState::kUsed, chunk(sweeping, 16, header(1, 0, kBlack)));
  EXPECT_EQ(BlockState::kFragment, chunk(sweeping, 16, header(0, 0, kWhite)));

  const HeapColours pools{.domains = true, .garbage = 0x100};
  EXPECT_EQ(BlockState::kFree, pools.state_of(RegionKind::kPool, 8, 0));
  EXPECT_EQ(BlockState::kUsed, pools.state_of(RegionKind::kPool, 8, header(1, 0, 0)));
  EXPECT_EQ(BlockState::kDead, pools.state_of(RegionKind::kPool, 8, header(1, 0, 0x100)));
  EXPECT_EQ(BlockState::kDead, pools.state_of(RegionKind::kLarge, 8, header(1, 0, 0x100)));
  EXPECT_EQ(BlockState::kUsed, pools.state_of(RegionKind::kLarge, 8, header(1, 0, kBlue)));
  EXPECT_EQ(BlockState::kUsed, pools.state_of(RegionKind::kMinor, 8, header(1, 0, 0x100)));
}

TEST(HeapMap, FreeSlotsOfRunsHaveHeaders) {
  const HeapColours pools{.domains = true, .garbage = 0x100, .free_runs = true};
  const auto slot = [&](std::uint64_t word) { return pools.state_of(RegionKind::kPool, 8, word); };
  EXPECT_EQ(BlockState::kFree, slot(header(0, kAbstractTag)));
  EXPECT_EQ(BlockState::kFree, slot(header(17, kAbstractTag)));
  EXPECT_EQ(BlockState::kUsed, slot(header(17, kAbstractTag, 0)));
  EXPECT_EQ(BlockState::kDead, slot(header(17, kAbstractTag, 0x100)));
  EXPECT_EQ(BlockState::kUsed, slot(header(17, kCustomTag)));
}

TEST(HeapMap, TheSweepBeginsWhereTheRuntimeSays) {
  FakeChunks heap;
  const std::uint64_t chunk = heap.put_chunk(block(3, 0));
  EXPECT_EQ(~std::uint64_t{0}, heap.map()->colours.unswept);
  heap.sweep_from(chunk + 32);
  EXPECT_EQ(chunk + 32, heap.map()->colours.unswept);
}

}  // namespace
}  // namespace memprofd
