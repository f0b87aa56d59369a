// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "daemon/snapshot/heap_census.h"
#include "tests/kit/fake_heap.h"
#include "tests/kit/full_length.h"

namespace memprofd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Seen {
  std::uint64_t address;
  std::uint64_t header;
  std::uint64_t words;
  BlockState state;
  std::vector<std::uint64_t> fields;
};

// Blocks with the parts of each put together.
std::vector<Seen> blocks_of(const FakeMemory& memory, const HeapMap& map) {
  std::vector<Seen> seen;
  const absl::Status status = walk_heap(memory, map, [&](const HeapRegion&, const BlockPart& part) {
    if (part.first == 0) {
      seen.push_back({part.address, part.header, part.words, part.state, {}});
    }
    EXPECT_EQ(seen.back().address, part.address);
    EXPECT_EQ(seen.back().fields.size(), part.first) << "parts follow one another";
    seen.back().fields.insert(seen.back().fields.end(), part.fields.begin(), part.fields.end());
  });
  EXPECT_TRUE(status.ok()) << status;
  return seen;
}

std::vector<std::uint64_t> counted(std::uint64_t fields, unsigned tag) {
  std::vector<std::uint64_t> words{header(fields, tag)};
  for (std::uint64_t i = 0; i < fields; ++i) words.push_back(i * 3 + 1);
  return words;
}

TEST(HeapWalk, VisitsBlocksOfAChunkWithTheirFields) {
  FakeChunks heap;
  const std::uint64_t chunk =
      heap.put_chunk(joined({counted(2, 17), block(0, 0, kWhite), counted(1, 252)}));
  const auto seen = blocks_of(heap.memory, *heap.map());
  ASSERT_EQ(4u, seen.size());
  EXPECT_EQ(chunk, seen[0].address);
  EXPECT_EQ(3u, seen[0].words);
  EXPECT_THAT(seen[0].fields, ElementsAre(1, 4));
  EXPECT_EQ(BlockState::kFragment, seen[1].state);
  EXPECT_THAT(seen[2].fields, ElementsAre(1));
  EXPECT_EQ(BlockState::kFree, seen[3].state);
  EXPECT_EQ(512u - 6, seen[3].words);
}

// A free slot after the first of its run has no meaning, even if it looks like a block.
TEST(HeapWalk, PassesOverRunsOfFreeSlots) {
  FakePools heap("5.5.0");
  const std::uint64_t pool = heap.put_pool(3, {block(3, 1, 0),
                                               {header(2, kAbstractTag)},
                                               block(3, 1, 0),
                                               {FakePools::kStale},
                                               block(2, 3, FakePools::kGarbage),
                                               {header(0, kAbstractTag)},
                                               block(1, 2, 0)});
  const auto seen = blocks_of(heap.memory, *heap.map());
  ASSERT_EQ(1023u, seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const bool is_block = i == 0 || i == 4 || i == 6;
    EXPECT_EQ(pool + 32 + 32 * i, seen[i].address);
    EXPECT_EQ(is_block, seen[i].state != BlockState::kFree) << i;
    if (is_block) continue;
    EXPECT_EQ(4u, seen[i].words);
    EXPECT_TRUE(seen[i].fields.empty());
  }
  EXPECT_EQ(BlockState::kDead, seen[4].state);
}

TEST(HeapWalk, RefusesARunThatIsLongerThanItsPool) {
  for (const std::uint64_t further : {1022, 1023, 1 << 20}) {
    FakePools heap("5.5.0");
    heap.put_pool(3, {{header(further, kAbstractTag)}});
    const auto map = heap.map();
    ASSERT_TRUE(map.ok()) << map.status();
    const absl::Status status =
        walk_heap(heap.memory, *map, [](const HeapRegion&, const BlockPart&) {});
    EXPECT_EQ(further == 1022, status.ok()) << further << " " << status;
  }
}

TEST(HeapWalk, VisitsSlotsOfAPoolAndOnlyTheirBlocks) {
  FakePools heap;
  const std::uint64_t pool =
      heap.put_pool(3, {block(3, 1, 0), block(1, 2, 0), block(2, 3, FakePools::kGarbage)});
  const auto seen = blocks_of(heap.memory, *heap.map());
  ASSERT_EQ(1023u, seen.size());
  EXPECT_EQ(pool + 32, seen[0].address);
  EXPECT_EQ(3u, seen[0].fields.size());
  EXPECT_EQ(2u, seen[1].words);
  EXPECT_EQ(1u, seen[1].fields.size());
  EXPECT_EQ(BlockState::kDead, seen[2].state);
  EXPECT_EQ(BlockState::kFree, seen[3].state);
  EXPECT_EQ(4u, seen[3].words);
  EXPECT_EQ(BlockState::kFree, seen.back().state);
}

// Sizes around the window's, so that each place where it can end is met.
TEST(HeapWalk, BlocksLargerThanTheWindowComeInParts) {
  constexpr std::uint64_t kWindow = HeapWindow::kWords;
  for (const std::uint64_t fields : {kWindow - 2, kWindow - 1, kWindow, 3 * kWindow + 5}) {
    for (const std::uint64_t before : {0, 1, 2, 3, 500}) {
      FakeChunks heap;
      heap.put_chunk(joined({block(before, 5), counted(fields, 17), counted(4, 3)}));
      const auto seen = blocks_of(heap.memory, *heap.map());
      ASSERT_LE(3u, seen.size());
      ASSERT_EQ(fields, seen[1].fields.size());
      EXPECT_EQ(header(fields, 17), seen[1].header);
      for (std::uint64_t i = 0; i < fields; ++i) ASSERT_EQ(i * 3 + 1, seen[1].fields[i]);
      EXPECT_THAT(seen[2].fields, ElementsAre(1, 4, 7, 10));
    }
  }
}

TEST(HeapWalk, LongStringsAreNotRead) {
  FakeChunks heap;
  heap.put_chunk(joined({counted(20 * HeapWindow::kWords, 252), counted(4, 3)}));
  const auto map = heap.map();
  const int before = heap.memory.reads;
  const auto seen = blocks_of(heap.memory, *map);
  EXPECT_LE(heap.memory.reads - before, 3);
  EXPECT_LE(2u, seen[0].fields.size());
  EXPECT_THAT(seen[1].fields, ElementsAre(1, 4, 7, 10));
}

// The first fields of a custom block identify it; they are read wherever the window ends.
TEST(HeapWalk, BlocksWithoutValuesComeWithTheirFirstFields) {
  for (std::uint64_t left = 1; left < 6; ++left) {
    FakeChunks heap;
    heap.put_chunk(
        joined({block(HeapWindow::kWords - 1 - left, 0), counted(9, 255), counted(1, 255)}));
    const auto seen = blocks_of(heap.memory, *heap.map());
    ASSERT_LE(3u, seen.size());
    ASSERT_LE(2u, seen[1].fields.size()) << left;
    EXPECT_EQ(1u, seen[1].fields[0]);
    EXPECT_EQ(4u, seen[1].fields[1]);
    EXPECT_THAT(seen[2].fields, ElementsAre(1));
  }
}

TEST(HeapWalk, PoolsSideBySideAreReadInOneGo) {
  FakePools heap;
  for (int i = 0; i < 10; ++i) heap.put_pool(3, {block(3, 1, 0)});
  const auto map = heap.map();
  const int before = heap.memory.reads;
  EXPECT_EQ(10u * 1023, blocks_of(heap.memory, *map).size());
  EXPECT_EQ(1, heap.memory.reads - before);
}

TEST(HeapWalk, ABlockThatLeavesItsPlaceIsRefused) {
  const auto refusal = [](const FakeMemory& memory, const absl::StatusOr<HeapMap>& map) {
    HeapCensus census;
    const absl::Status status = walk_heap(memory, *map, census);
    EXPECT_EQ(absl::StatusCode::kDataLoss, status.code());
    return std::string(status.message());
  };
  FakeChunks chunks;
  const std::uint64_t chunk = chunks.put_chunk(joined({block(3, 0), block(3, 0)}));
  chunks.memory.poke(chunk + 32, header(508, 0));
  EXPECT_THAT(refusal(chunks.memory, chunks.map()), HasSubstr("a block of 509 words"));
  chunks.memory.poke(chunk + 32, header((std::uint64_t{1} << 54) - 1, 0));
  EXPECT_THAT(refusal(chunks.memory, chunks.map()), HasSubstr("does not fit"));
  chunks.memory.poke(chunk + 32, header(507, 0));
  HeapCensus census;
  EXPECT_TRUE(walk_heap(chunks.memory, *chunks.map(), census).ok());

  FakePools pools;
  const std::uint64_t pool = pools.put_pool(3, {block(3, 1, 0)});
  pools.memory.poke(pool + 32, header(4, 1, 0));
  EXPECT_THAT(refusal(pools.memory, pools.map()), HasSubstr("a block of 5 words"));
}

// With any memory, the walk ends or is refused.
TEST(HeapWalk, RandomHeapsAreWalkedOrRefused) {
  std::mt19937_64 random(1);
  const int rounds = rounds_of(600, 2'000);
  int walked = 0;
  for (int i = 0; i < rounds; ++i) {
    FakePools pools;
    pools.put_pool(3, {block(3, 1, 0)});
    pools.put_large(block(300, 0));
    FakeChunks chunks;
    chunks.put_chunk(joined({block(3, 0), block(90, 0), block(7, 0)}));
    for (FakeHeap* heap : {static_cast<FakeHeap*>(&pools), static_cast<FakeHeap*>(&chunks)}) {
      const std::uint64_t words = (heap->memory.end() - FakeHeap::kBase) / 8;
      for (int n = 0; n < 3; ++n) {
        const std::uint64_t value = random() % 2 == 0 ? random() : random() % 4096 << 10;
        heap->memory.poke(FakeHeap::kBase + random() % words * 8, value);
      }
    }
    for (const auto& [heap, map] :
         {std::pair<FakeHeap*, absl::StatusOr<HeapMap>>(&pools, pools.map()),
          {&chunks, chunks.map()}}) {
      if (!map.ok()) continue;
      HeapCensus census;
      if (walk_heap(heap->memory, *map, census).ok()) ++walked;
    }
  }
  EXPECT_GT(walked, rounds / 20);
  EXPECT_LT(walked, 2 * rounds - rounds / 20);
}

}  // namespace
}  // namespace memprofd
