// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/runtime_shapes.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kBase = 0x100000;
constexpr std::uint64_t kBuffer = 65'536;

FakeMemory zeroes(std::uint64_t bytes) {
  FakeMemory memory(kBase);
  for (std::uint64_t i = 0; i < bytes; i += 8) memory.put(std::uint64_t{0});
  return memory;
}

// head: bytes before the buffer, 72 in OCaml 4, 104 in OCaml 5.
FakeMemory channel(std::uint64_t head) {
  FakeMemory memory = zeroes(head + kBuffer + 8);
  memory.poke(kBase + 16, kBase + head + kBuffer);
  memory.poke(kBase + 24, kBase + head + 10);
  memory.poke(kBase + 32, kBase + head);
  return memory;
}

TEST(RuntimeShapes, AChannelPointsToTheEndOfItsBuffer) {
  for (const std::uint64_t head : {72u, 104u}) {
    FakeMemory memory = channel(head);
    const std::uint64_t bytes = head + kBuffer + 8;
    const std::optional<ChannelChunks> one = ChannelChunks{.user = kBase};
    EXPECT_EQ(find_channel(memory, kBase, bytes), one) << head;
    EXPECT_EQ(find_channel(memory, kBase, bytes + 16), one) << "malloc gave some more";
    EXPECT_EQ(find_channel(memory, kBase, bytes + 2 * kBuffer), std::nullopt);
    EXPECT_EQ(find_channel(memory, kBase, kBuffer), std::nullopt);
    memory.poke(kBase + 32, std::uint64_t{0});
    EXPECT_EQ(find_channel(memory, kBase, bytes), one) << "it is written to";
    memory.poke(kBase + 24, kBase + head + kBuffer + 1);
    EXPECT_EQ(find_channel(memory, kBase, bytes), std::nullopt) << "behind its buffer";
  }
}

TEST(RuntimeShapes, AChannelMayHaveItsBufferElsewhere) {
  constexpr std::uint64_t kElsewhere = 0x7f0000000010;
  FakeMemory memory = zeroes(256);
  memory.poke(kBase + 16, kElsewhere + kBuffer);
  memory.poke(kBase + 24, kElsewhere);
  memory.poke(kBase + 112, kElsewhere);
  EXPECT_EQ(find_channel(memory, kBase, 128),
            std::optional(ChannelChunks{.user = kBase, .buffer = kElsewhere}));
  EXPECT_EQ(find_channel(memory, kBase, 192), std::nullopt);
  memory.poke(kBase + 112, kElsewhere + 16);
  EXPECT_EQ(find_channel(memory, kBase, 128), std::nullopt);
}

// Entries of a table of 256 slots, each with a descriptor whose return address belongs there.
FakeMemory frame_table(std::uint64_t off_by) {
  constexpr std::uint64_t kSlots = 256;
  FakeMemory memory = zeroes(2 * kSlots * 8);
  for (std::uint64_t i = 0; i < kSlots; i += 3) {
    const std::uint64_t descriptor = kBase + kSlots * 8 + i * 8;
    memory.poke(kBase + i * 8, descriptor);
    memory.poke(descriptor, (kSlots * 5 + i - i % 2 + off_by) << 3 | 5);
  }
  return memory;
}

TEST(RuntimeShapes, EntriesOfAFrameTableAreWhereTheirAddressesBelong) {
  EXPECT_TRUE(is_frame_table(frame_table(0), kBase, 2048));
  EXPECT_TRUE(is_frame_table(frame_table(0), kBase, 2064));
  EXPECT_FALSE(is_frame_table(frame_table(0), kBase, 3000)) << "no power of two";
  EXPECT_FALSE(is_frame_table(frame_table(100), kBase, 2048)) << "by another hash";
  EXPECT_FALSE(is_frame_table(zeroes(4096), kBase, 2048)) << "without an entry";
}

TEST(RuntimeShapes, AStackEndsWithItsHandlerWhereverItsChunkEnds) {
  for (const std::uint64_t bytes : {1024u, 1u << 20}) {
    FakeMemory memory = zeroes(bytes);
    const std::uint64_t handler = kBase + bytes - 64 - (bytes > 65'536 ? 4000 : 0);
    memory.poke(kBase, handler - 400);
    memory.poke(kBase + 16, handler);
    memory.poke(kBase + 24, std::uint64_t{3});
    EXPECT_TRUE(is_fiber_stack(memory, kBase, bytes)) << bytes;
    memory.poke(kBase + 24, std::uint64_t{64});
    EXPECT_FALSE(is_fiber_stack(memory, kBase, bytes)) << "no such cache";
    memory.poke(kBase + 24, std::uint64_t{3});
    memory.poke(kBase, handler + 8);
    EXPECT_FALSE(is_fiber_stack(memory, kBase, bytes));
  }
}

TEST(RuntimeShapes, ARefTableAddsUp) {
  for (const std::uint64_t entry : {8u, 16u, 24u}) {
    std::array<std::uint64_t, kRefTableWords> table{
        kBase, kBase + 1256 * entry, kBase + 1000 * entry, kBase + 8, kBase + 1000 * entry, 1000,
        256};
    EXPECT_EQ(ref_table_entries(table), kBase);
    table[4] = table[1];
    EXPECT_EQ(ref_table_entries(table), kBase) << "its reserve is in use";
    table[6] = 255;
    EXPECT_EQ(ref_table_entries(table), std::nullopt);
  }
  EXPECT_EQ(ref_table_entries(std::array<std::uint64_t, kRefTableWords>{}), std::nullopt);
}

TEST(RuntimeShapes, APoolHasAnOwnerThatIsThereOrNone) {
  constexpr std::uint64_t kPool = 0x7f0000001000, kState = 0x7f1000000000;
  const std::array<std::uint64_t, 1> states{kState};
  EXPECT_TRUE(is_pool_head({kPool + 0x8000, kPool + 64, kState, 7}, kPool, states));
  EXPECT_TRUE(is_pool_head({kPool + 0x8000, 0, 0, 31}, kPool, states));
  EXPECT_FALSE(is_pool_head({0, 0, 0, 31}, kPool, states)) << "a small number is none";
  EXPECT_FALSE(is_pool_head({0, 0, 0, 0}, kPool, states)) << "zeroes are none";
  EXPECT_FALSE(is_pool_head({0, 0, 0, 32}, kPool, states));
  EXPECT_FALSE(is_pool_head({0, 0, kState + 8, 7}, kPool, states));
  EXPECT_FALSE(is_pool_head({0, kPool + 0x8000, kState, 7}, kPool, states));
  EXPECT_FALSE(is_pool_head({kPool + 8, 0, kState, 7}, kPool, states));
}

// Total: whatever the words are.
TEST(RuntimeShapes, WordsByChanceEndNothing) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    FakeMemory memory = zeroes(2048);
    for (int i = 0; i < 16; ++i) memory.poke(kBase + random() % 256 * 8, random() >> random() % 64);
    for (const std::uint64_t bytes : {128u, 1024u, 2048u, 65'700u, 1u << 20}) {
      (void)find_channel(memory, kBase, bytes);
      (void)is_frame_table(memory, kBase, bytes);
      (void)is_fiber_stack(memory, kBase, bytes);
    }
    std::array<std::uint64_t, kRefTableWords> table{};
    for (auto& word : table) word = random() >> random() % 64;
    (void)ref_table_entries(table);
  }
}

}  // namespace
}  // namespace memprofd
