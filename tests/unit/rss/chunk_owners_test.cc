// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/chunk_owners.h"

#include <gtest/gtest.h>

#include <random>

#include "daemon/rss/custom_owners.h"
#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kBase = 0x100000;
constexpr std::uint64_t kChunk = 0x100;

std::uint64_t user(std::size_t number) { return kBase + number * kChunk + 16; }

// Chunks one behind the other, each with 240 bytes.
class FakeChunks {
 public:
  explicit FakeChunks(std::size_t count) : memory(kBase) {
    while (memory.end() < kBase + count * kChunk + 0x1000) memory.put(std::uint64_t{0});
    for (std::size_t i = 0; i < count; ++i) chunks.push_back({user(i), kChunk - 16});
  }
  void point(std::size_t from, std::uint64_t to, std::uint64_t at = 8) {
    memory.poke(user(from) + at, to);
  }
  ChunkOwners owners() const { return {memory, chunks}; }

  FakeMemory memory;
  std::vector<MallocChunk> chunks;
};

TEST(ChunkOwners, FollowsWhatAnOwnersWordsLeadTo) {
  FakeChunks fake(5);
  fake.point(0, user(1));
  fake.point(1, user(2), 232);
  fake.point(2, user(0));
  fake.point(3, user(4));
  ChunkOwners owners = fake.owners();
  EXPECT_TRUE(owners.own(user(0), 7));
  EXPECT_FALSE(owners.own(user(0), 8)) << "it has an owner";
  owners.follow();
  const auto of = owners.owners();
  EXPECT_EQ(std::vector(of.begin(), of.end()),
            (std::vector<std::uint32_t>{7, 7, 7, ChunkOwners::kNobody, ChunkOwners::kNobody}));
}

TEST(ChunkOwners, WhoPointsToAChunkHimselfComesBeforeWhoReachesIt) {
  FakeChunks fake(2);
  fake.point(0, user(1));
  ChunkOwners owners = fake.owners();
  owners.own(user(0), 1);
  owners.own(user(1), 2);
  owners.follow();
  EXPECT_EQ(owners.owners()[1], 2u);
}

TEST(ChunkOwners, TakesAddressesThatMallocGaveAlone) {
  FakeChunks fake(2);
  ChunkOwners owners = fake.owners();
  for (const std::uint64_t word : {user(0) - 16, user(0) + 8, user(1) + 16, std::uint64_t{1}}) {
    EXPECT_FALSE(owners.own(word, 1)) << word;
  }
  EXPECT_FALSE(ChunkOwners(fake.memory, {}).own(user(0), 1));
}

TEST(ChunkOwners, KnowsWhereNoChunkBegins) {
  const std::uint64_t megabyte = 1 << 20, far = (1ull << 46) + 77 * megabyte;
  FakeMemory memory(kBase);
  const ChunkOwners owners(memory, {{far, 64}, {far + 3 * megabyte + 16, 64}});
  EXPECT_TRUE(owners.may_own(far));
  EXPECT_TRUE(owners.may_own(far + 3 * megabyte + 16));
  for (const std::uint64_t word :
       {std::uint64_t{0}, far - megabyte, far + megabyte, far + 1000 * megabyte}) {
    EXPECT_FALSE(owners.may_own(word)) << std::hex << word;
  }
}

TEST(ChunkOwners, GoesAsFarAsItIsTold) {
  FakeChunks fake(4);
  for (std::size_t i = 0; i < 3; ++i) fake.point(i, user(i + 1));
  ChunkOwners owners = fake.owners();
  owners.own(user(0), 1, 1);
  owners.follow();
  EXPECT_EQ(owners.owners()[1], 1u);
  EXPECT_EQ(owners.owners()[2], ChunkOwners::kNobody);
}

TEST(ChunkOwners, WhatIsExcludedIsNobodysAndLeadsNowhere) {
  FakeChunks fake(3);
  fake.point(0, user(1));
  fake.point(1, user(2));
  ChunkOwners owners = fake.owners();
  ExtentLayer layer;
  layer.add({.begin = user(1) + 100, .end = user(1) + 101});
  layer.seal();
  owners.own(user(0), 1);
  owners.exclude(layer);
  owners.follow();
  EXPECT_EQ(owners.owners()[0], 1u);
  EXPECT_EQ(owners.owners()[1], ChunkOwners::kExcluded);
  EXPECT_EQ(owners.owners()[2], ChunkOwners::kNobody);
}

// A chunk's bytes reach into the next one's head.
TEST(ChunkOwners, AChunkBesideOneThatIsExcludedIsNot) {
  FakeChunks fake(3);
  for (MallocChunk& chunk : fake.chunks) chunk.bytes += 8;
  ChunkOwners owners = fake.owners();
  ExtentLayer layer;
  layer.add({.begin = user(1) - 16, .end = user(2) - 16});
  layer.seal();
  owners.exclude(layer);
  EXPECT_EQ(owners.owners()[0], ChunkOwners::kNobody);
  EXPECT_EQ(owners.owners()[1], ChunkOwners::kExcluded);
  EXPECT_EQ(owners.owners()[2], ChunkOwners::kNobody);
}

// Operations, and custom blocks one behind the other that have them.
class FakeHeap : public FakeMemory {
 public:
  FakeHeap() : FakeMemory(0x500000) {
    for (const std::uint64_t at : {put_string("lib.stream"), put_string("_bigarr02")}) {
      names_.push_back(at);
    }
    align(8);
    for (const std::uint64_t name : names_) operations.push_back(put(name));
    begin = end();
  }
  void block(std::uint64_t operation, std::vector<std::uint64_t> words, unsigned tag = kCustomTag) {
    put(std::uint64_t{(words.size() + 1) << 10 | 0x300 | tag});
    put(operation);
    for (const std::uint64_t word : words) put(word);
  }
  HeapMap map() const {
    return {.regions = {{.begin = begin, .words = (end() - begin) / kWordBytes}}, .colours = {}};
  }
  std::vector<std::uint64_t> operations;
  std::uint64_t begin;

 private:
  std::vector<std::uint64_t> names_;
};

TEST(CustomOwners, SumsUpByIdentifier) {
  FakeChunks fake(8);
  fake.point(1, user(3));  // elements of a Bigarray are not scanned
  fake.point(2, user(1));  // what it is shared by leads to them
  fake.point(0, user(4));
  FakeHeap heap;
  const std::uint64_t stream = heap.operations[0], array = heap.operations[1];
  heap.block(stream, {user(0)});
  heap.block(stream, {0, user(5)});
  heap.block(stream, {17});
  heap.block(array, {user(1) + 24, 1, 0, user(2), 50});
  heap.block(array, {user(6), 1, 0, 0, 50}, kAbstractTag);
  ChunkOwners chunks = fake.owners();
  CustomOwners owners([&](std::uint64_t at) { return custom_identifier(heap, at); });
  owners.find(heap, heap.map(), chunks);
  chunks.follow();
  ExtentLayer layer;
  owners.sum_up(chunks, layer);
  ASSERT_EQ(owners.owners().size(), 2u);
  const NativeOwner &streams = owners.owners()[0], &arrays = owners.owners()[1];
  EXPECT_EQ(streams.identifier, "lib.stream");
  EXPECT_EQ(streams.blocks, 2u);
  EXPECT_EQ(streams.chunks, 3u);
  EXPECT_EQ(streams.bytes, 3 * (kChunk - 16));
  EXPECT_EQ(arrays.identifier, "_bigarr02");
  EXPECT_EQ(arrays.chunks, 2u);
  EXPECT_EQ(owners.no_owner().chunks, 3u);
  EXPECT_EQ(layer.find(user(5))->name, 1u);
  EXPECT_EQ(layer.find(user(7))->name, 3u);
  EXPECT_EQ(owners.lost_bytes(), 0u);
}

TEST(CustomOwners, GoesOnBehindAPartThatCannotBeWalked) {
  FakeChunks fake(2);
  FakeHeap heap;
  heap.put(std::uint64_t{std::uint64_t{1} << 20 | kCustomTag});  // longer than its part
  const std::uint64_t good = heap.end();
  heap.block(heap.operations[0], {user(0)});
  HeapMap map = heap.map();
  map.regions = {{.begin = heap.begin, .words = 1},
                 {.begin = good, .words = (heap.end() - good) / kWordBytes}};
  ChunkOwners chunks = fake.owners();
  CustomOwners owners([&](std::uint64_t at) { return custom_identifier(heap, at); });
  owners.find(heap, map, chunks);
  EXPECT_EQ(chunks.owners()[0], 0u);
  EXPECT_EQ(owners.lost_bytes(), kWordBytes);
}

TEST(CustomOwners, AnIdentifierIsPrintableAndShort) {
  FakeMemory memory(0x1000);
  const auto identifier = [&](const std::string& text) {
    const std::uint64_t at = memory.put_string(text);
    memory.align(8);
    return custom_identifier(memory, memory.put(at));
  };
  EXPECT_EQ(identifier("_chan"), "_chan");
  EXPECT_EQ(identifier("a\nb"), "");
  EXPECT_EQ(identifier(std::string(1000, 'x')), std::string(64, 'x'));
  EXPECT_EQ(custom_identifier(memory, 8), "");
}

// A hostile heap: whatever stands in it, the search ends, and no chunk counts twice.
TEST(CustomOwners, SurviveAnyHeap) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    FakeChunks fake(16);
    for (int i = 0; i < 40; ++i) fake.point(random() % 16, user(random() % 16), random() % 30 * 8);
    FakeHeap heap;
    for (int i = 0; i < 20; ++i) heap.block(heap.operations[i % 2], {user(random() % 16), 2, 3, 4});
    for (int i = 0; i < 5; ++i) {
      heap.poke(heap.begin + random() % (heap.end() - heap.begin) / 8 * 8,
                random() >> random() % 64);
    }
    ChunkOwners chunks = fake.owners();
    CustomOwners owners([&](std::uint64_t at) { return custom_identifier(heap, at); });
    owners.find(heap, heap.map(), chunks);
    chunks.follow();
    ExtentLayer layer;
    owners.sum_up(chunks, layer);
    std::uint64_t sum = owners.no_owner().chunks;
    for (const NativeOwner& owner : owners.owners()) sum += owner.chunks;
    EXPECT_EQ(sum, 16u);
  }
}

}  // namespace
}  // namespace memprofd
