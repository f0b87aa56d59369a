// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/frame_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "bpf/events.h"
#include "tests/kit/fake_memory.h"
#include "tests/kit/full_length.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kBase = 0x555500000000;

// Writes descriptors as asmcomp/emitaux.ml does.
class TableBuilder {
 public:
  explicit TableBuilder(FakeMemory& memory) : memory_(memory) {
    memory_.align(8);
    table_ = memory_.put<std::uint64_t>(0);
  }
  // allocs: combined allocations; 0 for none.
  std::uint64_t add(std::uint64_t return_address, std::uint16_t size, int live, int allocs,
                    bool debug) {
    const int flags = (debug ? 1 : 0) + (allocs > 0 ? 2 : 0);
    const std::uint64_t at = memory_.put(return_address);
    memory_.put(static_cast<std::uint16_t>(size == 0xFFFF ? size : size + flags));
    memory_.put(static_cast<std::uint16_t>(live));
    for (int i = 0; i < live; ++i) memory_.put(static_cast<std::uint16_t>(8 * i));
    if (allocs > 0) memory_.put(static_cast<std::uint8_t>(allocs));
    for (int i = 0; i < allocs; ++i) memory_.put(static_cast<std::uint8_t>(i));
    if (debug) memory_.align(4);
    for (int i = 0; debug && i < std::max(allocs, 1); ++i) memory_.put<std::uint32_t>(0x100);
    memory_.align(8);
    memory_.poke(table_, ++count_);
    return at;
  }
  std::uint64_t address() const { return table_; }

 private:
  FakeMemory& memory_;
  std::uint64_t table_ = 0;
  std::uint64_t count_ = 0;
};

std::vector<Mapping> mapped(const FakeMemory& memory) {
  return {{.begin = memory.base(), .end = memory.base() + (1u << 30)}};
}

std::uint64_t put_list(FakeMemory& memory, std::initializer_list<std::uint64_t> tables) {
  memory.align(8);
  const std::uint64_t list = memory.end();
  for (const std::uint64_t table : tables) memory.put(table);
  memory.put<std::uint64_t>(0);
  return list;
}

TEST(FrameTable, ReadsEveryShapeOfDescriptor) {
  FakeMemory memory(kBase);
  std::vector<FrameDescriptor> expected;
  TableBuilder first(memory);
  std::uint64_t pc = 0x401000;
  for (const bool debug : {false, true}) {
    for (const int allocs : {0, 1, 2, 3, 4, 5, 255}) {
      for (const int live : {0, 1, 2, 3, 7}) {
        const std::uint64_t at = first.add(pc, 0x20, live, allocs, debug);
        const auto flags = static_cast<std::uint16_t>((debug ? 1 : 0) + (allocs > 0 ? 2 : 0));
        expected.push_back({pc, at, static_cast<std::uint16_t>(0x20 + flags)});
        pc += 5;
      }
    }
  }
  TableBuilder system(memory);
  expected.push_back({pc, system.add(pc, 0xFFFF, 0, 0, false), 0xFFFF});
  const auto table = read_frame_table(memory, mapped(memory),
                                      put_list(memory, {first.address(), system.address()}));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->skipped, 0u);
  ASSERT_EQ(table->descriptors().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(table->descriptors()[i].return_address, expected[i].return_address) << i;
    EXPECT_EQ(table->descriptors()[i].address, expected[i].address) << i;
    EXPECT_EQ(table->descriptors()[i].frame_size, expected[i].frame_size) << i;
  }
  ASSERT_NE(table->find(pc), nullptr);
  EXPECT_EQ(table->find(pc)->frame_size, 0xFFFF);
  EXPECT_EQ(table->find(pc + 1), nullptr);
  EXPECT_EQ(table->find(0), nullptr);
}

// The descriptor of a chunk's end has the flag bits set, but no trailing data: the next descriptor
// follows immediately.
TEST(FrameTable, ChunkEndHasNoTrailingData) {
  FakeMemory memory(kBase);
  TableBuilder builder(memory);
  builder.add(0x401000, 0xFFFF, 0, 0, false);
  const std::uint64_t second = builder.add(0x402000, 0x10, 0, 0, false);
  EXPECT_EQ(second, builder.address() + 8 + 16);
  const auto table =
      read_frame_table(memory, mapped(memory), put_list(memory, {builder.address()}));
  ASSERT_TRUE(table.ok());
  ASSERT_NE(table->find(0x402000), nullptr);
  EXPECT_EQ(table->find(0x402000)->address, second);
}

// Memory that records whether a read crossed an address. In a real process, a file whose reads
// never return could be mapped there.
class FencedMemory : public FakeMemory {
 public:
  using FakeMemory::FakeMemory;
  void fence() { fence_ = end(); }
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    crossed |= fence_ != 0 && address + out.size() > fence_;
    return FakeMemory::read(address, out);
  }
  mutable bool crossed = false;

 private:
  std::uint64_t fence_ = 0;
};

TEST(FrameTable, NothingIsTouchedBehindTheMappingOfATable) {
  FencedMemory memory(kBase);
  TableBuilder builder(memory);
  for (std::uint64_t i = 0; i < 10'000; ++i) builder.add(0x401000 + i, 0x10, 3, 2, true);
  const std::uint64_t list = put_list(memory, {builder.address()});
  memory.fence();
  const std::vector<Mapping> own = {{.begin = kBase - 4096, .end = kBase},
                                    {.begin = kBase, .end = memory.end()}};
  for (int i = 0; i < 1 << 17; ++i) memory.put<std::uint64_t>(0);  // another mapping
  const auto table = read_frame_table(memory, own, list);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->descriptors().size(), 10'000u);
  EXPECT_FALSE(memory.crossed);
  EXPECT_LT(memory.reads, 10) << "in big steps";

  memory.fence();
  EXPECT_TRUE(read_frame_table(memory, {}, list).ok()) << "mapped since";
}

TEST(FrameTable, ATableMayReachIntoTheNextMapping) {
  FakeMemory memory(kBase);
  TableBuilder builder(memory);
  for (std::uint64_t i = 0; i < 1000; ++i) builder.add(0x401000 + i, 0x10, 1, 0, true);
  const std::uint64_t list = put_list(memory, {builder.address()});
  const std::uint64_t middle = kBase + 5005;
  const std::vector<Mapping> split = {{.begin = kBase, .end = middle},
                                      {.begin = middle, .end = memory.end()}};
  const auto table = read_frame_table(memory, split, list);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->descriptors().size(), 1000u);
}

TEST(FrameTable, TablesBeyondTheBudgetAreCounted) {
  FakeMemory memory(kBase);
  TableBuilder builder(memory);
  for (std::uint64_t i = 0; i < 10'000; ++i) builder.add(0x401000 + i, 0x10, 0, 0, false);
  const std::uint64_t list = put_list(memory, {builder.address()});
  const auto budget = std::make_shared<ByteBudget>(4096 * sizeof(FrameDescriptor));
  const auto table = read_frame_table(memory, mapped(memory), list, budget);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->descriptors().size() + table->without_room, 10'000u);
  EXPECT_EQ(table->without_room, table->skipped);
  EXPECT_EQ(budget->refused(), table->without_room);
  EXPECT_GT(table->without_room, 0u);
}

TEST(FrameTable, AbsurdCountEndsAtTheFirstNonsense) {
  FakeMemory memory(kBase);
  TableBuilder builder(memory);
  builder.add(0x401000, 0x10, 0, 0, true);
  builder.add(0x401005, 0x10, 0, 0, true);
  memory.poke(builder.address(), ~0ull);
  for (int i = 0; i < 64; ++i) memory.put<std::uint64_t>(0);
  const auto table =
      read_frame_table(memory, mapped(memory), put_list(memory, {builder.address()}));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->descriptors().size(), 2u);
  EXPECT_GT(table->skipped, 0u);
}

TEST(FrameTable, OneBadTableDoesNotSpoilTheOthers) {
  FakeMemory memory(kBase);
  TableBuilder good(memory);
  good.add(0x401000, 0x10, 0, 0, false);
  TableBuilder bad(memory);
  bad.add(0x402000, 0x10, 0, 0, false);
  bad.add(0x8000'0000'0000'0000, 0x10, 0, 0, false);  // not a user address
  bad.add(0x402010, 0x10, 0, 0, false);
  TableBuilder last(memory);
  last.add(0x403000, 0x10, 0, 0, false);
  const std::uint64_t unmapped = 0x1234000;
  const std::uint64_t list =
      put_list(memory, {good.address(), unmapped, bad.address(), last.address()});
  const auto table = read_frame_table(memory, mapped(memory), list);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->descriptors().size(), 3u);
  EXPECT_EQ(table->skipped, 3u);  // one unreadable table, two descriptors of the bad one
}

TEST(FrameTable, DuplicatesAreSkipped) {
  FakeMemory memory(kBase);
  TableBuilder builder(memory);
  const std::uint64_t first = builder.add(0x401000, 0x10, 0, 0, false);
  const std::uint64_t table_address = builder.address();
  const auto table = read_frame_table(
      memory, mapped(memory), put_list(memory, {table_address, table_address, table_address}));
  ASSERT_TRUE(table.ok());
  ASSERT_EQ(table->descriptors().size(), 1u);
  EXPECT_EQ(table->descriptors()[0].address, first);
  EXPECT_EQ(table->skipped, 2u);
}

TEST(FrameTable, NothingReadableIsAnError) {
  FakeMemory memory(kBase);
  memory.put<std::uint64_t>(0);
  EXPECT_FALSE(read_frame_table(memory, mapped(memory), kBase).ok());
  EXPECT_FALSE(read_frame_table(memory, mapped(memory), 0x1000).ok());
  EXPECT_FALSE(read_frame_table(memory, mapped(memory), ~0ull - 7).ok());
}

// Truncated and damaged tables: reading fails, or returns plausible descriptors and no more than
// fit into the memory.
TEST(FrameTable, TotalOnCorruptMemory) {
  FakeMemory good(kBase);
  good.put<std::uint64_t>(kBase + 16);
  good.put<std::uint64_t>(0);
  TableBuilder builder(good);
  ASSERT_EQ(builder.address(), kBase + 16);
  for (int i = 0; i < 50; ++i) builder.add(0x401000 + 7 * i, 0x20, i % 4, i % 3, i % 2 == 0);
  const std::uint64_t size = good.end() - kBase;
  std::mt19937_64 random(42);
  std::uint64_t damaged = 0;
  const int rounds = rounds_of(1000, 4000);
  for (int round = 0; round < rounds; ++round) {
    FakeMemory memory = good;
    if (round % 2 == 0) memory.truncate(random() % size);
    for (std::uint64_t k = random() % 4, n = memory.end() - kBase; k > 0 && n > 0; --k) {
      memory.poke(kBase + random() % n, static_cast<std::uint8_t>(random()));
    }
    const auto table = read_frame_table(memory, mapped(memory), kBase);
    if (!table.ok()) continue;
    EXPECT_LE(table->descriptors().size(), size / 16);
    damaged += table->skipped > 0 ? 1 : 0;
    for (const FrameDescriptor& d : table->descriptors()) {
      EXPECT_GE(d.return_address, 4096u);
      EXPECT_LT(d.address, kBase + size);
    }
  }
  EXPECT_GT(damaged, static_cast<std::uint64_t>(rounds) / 4);
}

FrameTable many_descriptors(std::size_t n) {
  std::mt19937_64 random(7);
  std::vector<FrameDescriptor> descriptors;
  std::uint64_t pc = 0x555500001000;
  for (std::size_t i = 0; i < n; ++i) {
    pc += 5 + random() % 60;
    descriptors.push_back({pc, 0, static_cast<std::uint16_t>(8 * (random() % 64))});
  }
  return FrameTable(std::move(descriptors));
}

TEST(FrameTable, BigTableIsReadInFewCalls) {
  FakeMemory memory(kBase);
  TableBuilder builder(memory);
  constexpr int kCount = 140'000;
  for (int i = 0; i < kCount; ++i) builder.add(0x401000 + 16ull * i, 0x20, 3, 0, true);
  const std::uint64_t list = put_list(memory, {builder.address()});
  memory.reads = 0;
  const auto begin = std::chrono::steady_clock::now();
  const auto table = read_frame_table(memory, mapped(memory), list);
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->descriptors().size(), static_cast<std::size_t>(kCount));
  EXPECT_LT(memory.reads, 40);
  RecordProperty("ms", static_cast<int>(
                           std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count()));
}

// The kernel's look-up as defined in bpf/events.h; -1 if it fails.
int kernel_find(const KernelFrameTable& table, std::uint64_t return_address) {
  const std::uint64_t mask = (1ull << table.bits) - 1;
  std::uint64_t at = memprof_slot_home(return_address, table.bits);
  for (std::uint32_t i = 0; i < MEMPROF_MAX_PROBES; ++i, at = (at + 1) & mask) {
    const std::uint64_t slot = table.slots[at];
    if (slot == 0) return -1;
    if (MEMPROF_SLOT_RETADDR(slot) == return_address) return MEMPROF_SLOT_FRAME_SIZE(slot);
  }
  return -1;
}

TEST(KernelFrameTable, EveryAddressIsFoundWithinTheProbeBound) {
  for (const std::size_t n : {1u, 2u, 100u, 4096u, 143'000u}) {
    const FrameTable frames = many_descriptors(n);
    const KernelFrameTable table = build_kernel_frame_table(frames);
    ASSERT_EQ(table.slots.size(), 1ull << table.bits);
    EXPECT_EQ(table.left_out, 0u);
    EXPECT_LE(table.slots.size(), 8 * n + 16);
    for (const FrameDescriptor& d : frames.descriptors()) {
      ASSERT_EQ(kernel_find(table, d.return_address), d.frame_size);
    }
    EXPECT_EQ(kernel_find(table, 0x1234567), -1);
  }
}

// Coq with its plugins.
TEST(KernelFrameTable, TheLargestProgramTakesAtMostFourMegabytes) {
  std::vector<FrameDescriptor> descriptors;
  for (std::uint64_t i = 0; i < 179'000; ++i) {
    descriptors.push_back({.return_address = 0x55aa00001000 + 37 * i, .frame_size = 32});
  }
  const KernelFrameTable table = build_kernel_frame_table(FrameTable(std::move(descriptors)));
  EXPECT_EQ(table.left_out, 0u);
  EXPECT_LE(table.slots.size() * sizeof table.slots[0], 4u << 20);
}

TEST(KernelFrameTable, EmptyTableAnswersNothing) {
  const KernelFrameTable table = build_kernel_frame_table(FrameTable());
  EXPECT_EQ(table.slots.size(), 1ull << table.bits);
  EXPECT_EQ(kernel_find(table, 0x401000), -1);
}

TEST(KernelFrameTable, HighAddressesAreLeftOut) {
  const KernelFrameTable table = build_kernel_frame_table(
      FrameTable({{1ull << 48, 0, 16}, {0xffff800000000000, 0, 16}, {0x401000, 0, 32}}));
  EXPECT_EQ(table.left_out, 2u);
  EXPECT_EQ(kernel_find(table, 0x401000), 32);
}

// Addresses made to share a home in every table cannot make it grow without end.
TEST(KernelFrameTable, CollisionAttackIsBounded) {
  constexpr std::uint64_t kInverse = 0xf1de83e19937733d;  // of the hash's multiplier
  static_assert(kInverse * 0x9e3779b97f4a7c15 == 1);
  std::vector<FrameDescriptor> descriptors;
  for (std::uint64_t low = 0; descriptors.size() < 200 && low < (1u << 26); ++low) {
    const std::uint64_t address = low * kInverse;  // hashes to low: home 0 in any table
    if (address >= 4096 && address < (1ull << 48)) descriptors.push_back({address, 0, 16});
  }
  ASSERT_EQ(descriptors.size(), 200u);
  const KernelFrameTable table = build_kernel_frame_table(FrameTable(descriptors));
  EXPECT_LE(table.slots.size(), 200u * 64);
  EXPECT_EQ(table.left_out, 200u - MEMPROF_MAX_PROBES);
}

}  // namespace
}  // namespace memprofd
