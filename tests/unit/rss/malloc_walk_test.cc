// SPDX-License-Identifier: Apache-2.0
// Arenas and chunks as glibc lays them out, built word by word; then the same with any word broken.
#include "daemon/rss/malloc_walk.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kBase = 0x10000;
constexpr std::uint64_t kDataBytes = 0x3000;
constexpr std::uint64_t kArena = kBase + 0x100;
constexpr std::uint64_t kBins = kArena + 112;
constexpr std::uint64_t kHeap = kBase + kDataBytes;
constexpr std::uint64_t kHeapBytes = 0x4000;

// A data segment with the main arena, and behind it the break heap with chunks.
class FakeMalloc {
 public:
  FakeMalloc() : memory(kBase) {
    while (memory.end() < kHeap + kHeapBytes) memory.put(std::uint64_t{0});
    for (std::uint64_t bin = kBins; bin < kBins + 2032; bin += 16) {
      memory.poke(bin, bin - 16);
      memory.poke(bin + 8, bin - 16);
    }
    memory.poke(kBins, std::uint64_t{kHeap + 0x40});  // the first bin is not empty
    memory.poke(kBins + 2048, kArena);                // next
    memory.poke(kBins + 2072, kHeapBytes);
    memory.poke(kBins + 2080, kHeapBytes);
  }

  // Appends a chunk, whose flag tells if the previous one is in use.
  std::uint64_t chunk(std::uint64_t bytes, bool in_use) {
    memory.poke(at_ + 8, bytes | (before_in_use_ ? 1 : 0));
    before_in_use_ = in_use;
    at_ += bytes;
    return at_ - bytes;
  }
  void top() {
    memory.poke(kBins - 16, at_);
    memory.poke(at_ + 8, (kHeap + kHeapBytes - at_) | (before_in_use_ ? 1 : 0));
  }

  FakeMemory memory;

 private:
  std::uint64_t at_ = kHeap;
  bool before_in_use_ = true;
};

const std::vector<AddressSpan> kData{{kBase, kBase + kDataBytes}};
const std::vector<AddressSpan> kBreakHeap{{kHeap, kHeap + kHeapBytes}};

MallocWalk walk_of(const MemoryReader& memory, std::optional<RssClass> known = std::nullopt) {
  MallocWalk walk(memory, [known](std::uint64_t, std::uint64_t) { return known; }, {});
  const auto arenas = find_arenas(memory, kData);
  for (std::size_t i = 0; i < arenas.size(); ++i) {
    walk.walk_arena(arenas[i], static_cast<std::uint32_t>(i), kBreakHeap);
  }
  walk.chunks().seal();
  walk.find_cached(arenas);
  return walk;
}

std::uint64_t bytes_of(const ExtentLayer& layer, RssClass kind) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : layer.extents()) {
    bytes += extent.kind == kind ? extent.end - extent.begin : 0;
  }
  return bytes;
}

TEST(GlibcArenas, TheMainOneIsFoundByItsBins) {
  FakeMalloc fake;
  fake.chunk(0x100, true);
  fake.top();
  const auto arenas = find_arenas(fake.memory, kData);
  ASSERT_EQ(arenas.size(), 1u);
  EXPECT_EQ(arenas[0].bins, kBins);
  EXPECT_EQ(arenas[0].top, kHeap + 0x100);
  EXPECT_EQ(arenas[0].system_bytes, kHeapBytes);
  EXPECT_TRUE(arenas[0].is_main);
}

// Its heap claims the arena, but its bins are elsewhere.
TEST(GlibcArenas, ChunksOfAHeapBeginInIt) {
  constexpr std::uint64_t kHeapAt = kArenaHeapBytes, kData2 = kHeapAt - 0x3000;
  constexpr std::uint64_t kArenas[] = {kData2 + 0x100, kData2 + 0x1100};
  FakeMemory memory(kData2);
  while (memory.end() < kHeapAt + 0x1000) memory.put(std::uint64_t{0});
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t bins = kArenas[i] + 112;
    for (std::uint64_t bin = bins; bin < bins + 2032; bin += 16) {
      memory.poke(bin, bin - 16);
      memory.poke(bin + 8, bin - 16);
    }
    memory.poke(bins - 16, kHeapAt + 0x800);  // top
    memory.poke(bins + 2048, kArenas[1 - i]);
    memory.poke(bins + 2072, std::uint64_t{0x1000});
    memory.poke(bins + 2080, std::uint64_t{0x1000});
  }
  memory.poke(kHeapAt, kHeapAt + 48);
  memory.poke(kHeapAt + 16, std::uint64_t{0x1000});
  const auto arenas = find_arenas(memory, std::vector<AddressSpan>{{kData2, kHeapAt}});
  ASSERT_EQ(arenas.size(), 2u);
  ASSERT_EQ(arenas[1].heaps.size(), 1u);
  EXPECT_EQ(arenas[1].heaps[0].begin, kHeapAt);
  EXPECT_EQ(arenas[1].heaps[0].first_chunk, kHeapAt);
}

TEST(GlibcArenas, ThereIsNoneWhoseRingDoesNotClose) {
  FakeMalloc fake;
  fake.memory.poke(kBins + 2048, kArena + 64);
  EXPECT_TRUE(find_arenas(fake.memory, kData).empty());
}

TEST(GlibcArenas, AnArenaNeverUsedIsNone) {
  FakeMalloc fake;
  fake.memory.poke(kBins + 2072, std::uint64_t{0});
  EXPECT_TRUE(find_arenas(fake.memory, kData).empty());
}

TEST(MallocWalk, TellsChunksInUseFromFreeOnesAndTheTop) {
  FakeMalloc fake;
  fake.chunk(0x100, true);
  fake.chunk(0x200, false);
  fake.chunk(0x80, true);
  fake.top();
  MallocWalk walk = walk_of(fake.memory);
  const ExtentLayer& chunks = walk.chunks();
  EXPECT_EQ(bytes_of(chunks, RssClass::kMallocUsed), 0x180u);
  EXPECT_EQ(bytes_of(chunks, RssClass::kMallocFree), 0x200u + kHeapBytes - 0x380);
  EXPECT_EQ(bytes_of(chunks, RssClass::kMallocUnwalked), 0u);
  EXPECT_TRUE(walk.complete());
}

TEST(MallocWalk, GivesChunksInUseToWhoKnowsThem) {
  FakeMalloc fake;
  fake.chunk(0x100, true);
  fake.chunk(0x200, false);
  fake.top();
  MallocWalk walk = walk_of(fake.memory, RssClass::kFiberStack);
  EXPECT_EQ(bytes_of(walk.chunks(), RssClass::kFiberStack), 0x100u);
}

TEST(MallocWalk, FindsTheChunkOfAnAddress) {
  FakeMalloc fake;
  fake.chunk(0x100, true);
  const std::uint64_t second = fake.chunk(0x200, true);
  const std::uint64_t third = fake.chunk(0x80, false);
  fake.top();
  const MallocWalk walk = walk_of(fake.memory);
  const auto found = walk.chunk_of(second + 16);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->begin, second);
  EXPECT_EQ(found->end, second + 0x200);
  EXPECT_FALSE(walk.chunk_of(second + 24));
  EXPECT_FALSE(walk.chunk_of(third + 16)) << "it is free";
  EXPECT_FALSE(walk.chunk_of(8));
}

TEST(MallocWalk, KeepsChunksInUseWithWhatMallocGave) {
  FakeMalloc fake;
  const std::uint64_t first = fake.chunk(0x100, true);
  fake.chunk(0x200, false);
  const std::uint64_t third = fake.chunk(0x80, true);
  fake.top();
  const auto kept_of = [&](std::size_t most) {
    MallocWalk walk(fake.memory, [](auto, auto) { return std::nullopt; }, {.max_kept = most});
    walk.walk_arena(find_arenas(fake.memory, kData)[0], 0, kBreakHeap);
    return std::pair(walk.kept(), walk.kept_all());
  };
  const MallocChunk chunks[] = {{first + 16, 0xf8}, {third + 16, 0x78}};
  EXPECT_EQ(kept_of(2), std::pair(std::vector{chunks[0], chunks[1]}, true));
  EXPECT_EQ(kept_of(1), std::pair(std::vector{chunks[0]}, false));
}

TEST(MallocWalk, FindsWhatATcacheKeeps) {
  FakeMalloc fake;
  const std::uint64_t tcache = fake.chunk(0x290, true) + 16;
  const std::uint64_t first = fake.chunk(0x40, true) + 16, second = fake.chunk(0x40, true) + 16;
  fake.chunk(0x40, true);
  fake.top();
  fake.memory.poke(tcache + 2 * 2, std::uint16_t{2});  // chunks of 0x40 bytes are list 2
  fake.memory.poke(tcache + 128 + 8 * 2, first);
  fake.memory.poke(first, second ^ (first >> 12));
  fake.memory.poke(second, second >> 12);
  MallocWalk walk = walk_of(fake.memory);
  EXPECT_EQ(bytes_of(walk.cached(), RssClass::kMallocCache), 0x80u);
}

// From glibc 2.42 on a tcache counts the room of its 76 lists; those after the first 64 have chunks
// of several sizes.
TEST(MallocWalk, FindsWhatATcacheThatCountsRoomKeeps) {
  FakeMalloc fake;
  const std::uint64_t tcache = fake.chunk(0x300, true) + 16;
  const std::uint64_t first = fake.chunk(0x40, true) + 16, second = fake.chunk(0x40, true) + 16;
  const std::uint64_t large = fake.chunk(0x460, true) + 16;
  fake.chunk(0x40, true);
  fake.top();
  for (int i = 0; i < 76; ++i) fake.memory.poke(tcache + 2 * i, std::uint16_t{16});
  fake.memory.poke(tcache + 2 * 2, std::uint16_t{14});
  fake.memory.poke(tcache + 152 + 8 * 2, first);
  fake.memory.poke(first, second ^ (first >> 12));
  fake.memory.poke(second, second >> 12);
  fake.memory.poke(tcache + 2 * 64, std::uint16_t{15});
  fake.memory.poke(tcache + 152 + 8 * 64, large);
  fake.memory.poke(large, large >> 12);
  EXPECT_EQ(bytes_of(walk_of(fake.memory).cached(), RssClass::kMallocCache), 0x80u + 0x460u);
  fake.memory.poke(tcache + 2 * 3, std::uint16_t{15});  // a list with a chunk and without
  EXPECT_EQ(bytes_of(walk_of(fake.memory).cached(), RssClass::kMallocCache), 0u);
}

TEST(MallocWalk, ChunksOfAnotherSizeAreNotInThatListOfATcache) {
  FakeMalloc fake;
  const std::uint64_t tcache = fake.chunk(0x290, true) + 16;
  const std::uint64_t other = fake.chunk(0x50, true) + 16;
  fake.top();
  fake.memory.poke(tcache + 2 * 2, std::uint16_t{1});
  fake.memory.poke(tcache + 128 + 8 * 2, other);
  MallocWalk walk = walk_of(fake.memory);
  EXPECT_EQ(bytes_of(walk.cached(), RssClass::kMallocCache), 0u);
}

TEST(MallocWalk, GoesOnBehindABrokenChunk) {
  FakeMalloc fake;
  for (int i = 0; i < 10; ++i) fake.chunk(0x40, true);
  const std::uint64_t broken = fake.chunk(0x40, true);
  for (int i = 0; i < 20; ++i) fake.chunk(0x40, true);
  fake.top();
  fake.memory.poke(broken + 8, std::uint64_t{7});
  MallocWalk walk = walk_of(fake.memory);
  EXPECT_EQ(bytes_of(walk.chunks(), RssClass::kMallocUnwalked), 0x40u);
  EXPECT_EQ(bytes_of(walk.chunks(), RssClass::kMallocUsed), 30u * 0x40);
}

TEST(MallocWalk, FindsChunksWithMappingsOfTheirOwn) {
  FakeMemory memory(0x100000);
  while (memory.end() < 0x108000) memory.put(std::uint64_t{0});
  memory.poke(0x101008, std::uint64_t{0x3002});
  memory.poke(0x105008, std::uint64_t{0x9002});  // beyond the end: none
  MallocWalk walk(memory, [](auto, auto) { return std::nullopt; }, {.max_kept = 9});
  const AddressSpan all{0x100000, 0x108000};
  walk.walk_mapped(all, std::vector{all}, {});
  walk.chunks().seal();
  EXPECT_EQ(walk.mapped(), 1u);
  EXPECT_EQ(walk.kept(), std::vector<MallocChunk>({{0x101010, 0x2ff0}}));
  EXPECT_EQ(walk.chunks().find(0x103fff)->kind, RssClass::kMallocMmapped);
  EXPECT_EQ(walk.chunks().find(0x104000), nullptr);
}

TEST(MallocWalk, FindsThoseOfGlibc243) {
  FakeMemory memory(0x100000);
  while (memory.end() < 0x108000) memory.put(std::uint64_t{0});
  memory.poke(0x101008, std::uint64_t{0x2ff2});
  memory.poke(0x105008, std::uint64_t{0x3ff2});  // beyond the end: none
  memory.poke(0x106008, ~std::uint64_t{0xd});    // the size and its head are 0
  MallocWalk walk(memory, [](auto, auto) { return std::nullopt; }, {.max_kept = 9});
  const AddressSpan all{0x100000, 0x108000};
  walk.walk_mapped(all, std::vector{all}, {});
  walk.chunks().seal();
  EXPECT_EQ(walk.mapped(), 1u);
  EXPECT_EQ(walk.kept(), std::vector<MallocChunk>({{0x101010, 0x2fe8}}));
  EXPECT_EQ(walk.chunks().find(0x103fff)->kind, RssClass::kMallocMmapped);
}

// Rounded up to where a chunk or the next page may begin, these addresses are 0.
TEST(MallocWalk, TakesNoHeapBehindTheEndOfMemory) {
  const FakeMemory memory(kBase);
  constexpr std::uint64_t kLast = ~std::uint64_t{0};
  MallocWalk walk(memory, [](std::uint64_t, std::uint64_t) { return std::nullopt; },
                  {.max_chunks = 100'000});
  const AddressSpan top{kLast - 3, kLast};
  walk.walk_arena({.is_main = true}, 0, {top});
  walk.walk_mapped(top, std::span(&top, 1), {});
  walk.chunks().seal();
  EXPECT_TRUE(walk.chunks().extents().empty());
  EXPECT_EQ(walk.walked(), 0U);
}

TEST(MallocWalk, EndsWithItsChunks) {
  FakeMalloc fake;
  for (int i = 0; i < 100; ++i) fake.chunk(0x40, true);
  fake.top();
  MallocWalk walk(fake.memory, [](auto, auto) { return std::nullopt; }, {.max_chunks = 10});
  walk.walk_arena(find_arenas(fake.memory, kData)[0], 0, kBreakHeap);
  EXPECT_FALSE(walk.complete());
  EXPECT_GT(bytes_of(walk.chunks(), RssClass::kMallocUnwalked), kHeapBytes - 11 * 0x40);
}

// A hostile program: whatever stands in its memory, the walk ends and stays in the heap.
TEST(MallocWalk, SurvivesAnyMemory) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    FakeMalloc fake;
    for (int i = 0; i < 40; ++i)
      fake.chunk(i % 5 == 0 ? 0x290 : 0x20 + random() % 8 * 16, i % 3 != 0);
    fake.top();
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t at = kBase + random() % (kDataBytes + kHeapBytes) / 8 * 8;
      const std::uint64_t values[] = {random(), kHeap + random() % kHeapBytes / 16 * 16,
                                      random() % 0x400, ~std::uint64_t{0}};
      fake.memory.poke(at, values[random() % 4]);
    }
    MallocWalk walk = walk_of(fake.memory);
    std::uint64_t end = 0;
    for (const Extent& extent : walk.chunks().extents()) {
      ASSERT_GE(extent.begin, std::max(end, kHeap));
      ASSERT_LE(extent.end, kHeap + kHeapBytes);
      end = extent.end;
    }
  }
}

}  // namespace
}  // namespace memprofd
