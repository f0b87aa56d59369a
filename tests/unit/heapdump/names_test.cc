// SPDX-License-Identifier: Apache-2.0
// Reading modules, stacks and sampled blocks from a program's memory, well-formed or damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "daemon/heapdump/ephemeron_list.h"
#include "daemon/heapdump/fiber_walk.h"
#include "daemon/heapdump/finaliser_tables.h"
#include "daemon/heapdump/memprof_entries.h"
#include "daemon/heapdump/stack_slots.h"
#include "daemon/snapshot/module_blocks.h"
#include "tests/kit/fake_heap.h"
#include "tests/kit/fake_service.h"

namespace memprofd {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
constexpr std::uint64_t kBase = 0x100000;
constexpr std::uint64_t kCode = 0x400000;

// A descriptor as the runtime has it.
std::uint64_t put_descriptor(FakeMemory& memory, std::uint64_t return_address, std::uint16_t size,
                             const std::vector<std::uint16_t>& live) {
  const std::uint64_t at = memory.put(return_address);
  memory.put(size);
  memory.put(static_cast<std::uint16_t>(live.size()));
  for (const std::uint16_t entry : live) memory.put(entry);
  memory.align(8);
  return at;
}

// Two frames of OCaml code called by C code, which was called by another one.
class Stack : public ::testing::Test {
 protected:
  Stack() {
    std::vector<FrameDescriptor> frames;
    const auto add = [&](std::uint64_t code, std::uint16_t size,
                         const std::vector<std::uint16_t>& live) {
      frames.push_back({code, put_descriptor(memory_, code, size, live), size});
    };
    add(kCode + 1, 32, {0, 8});
    add(kCode + 2, 16 | 1, {8, 5});  // a register, and a flag in the size
    add(kCode + 3, 0xffff, {});
    add(kCode + 4, 16, {0});
    add(kCode + 5, 0xffff, {});
    table_ = FrameTable(std::move(frames));
    saved_ = {.stack = put({10, 11, 12, kCode + 2,  // a frame of 32 bytes
                            20, kCode + 3}),        // one of 16
              .return_address = kCode + 1,
              .registers = kBase};
    // Frame of caml_start_program: two words, then the link.
    const std::uint64_t link = put({0, 0, 0, kCode + 4, kBase + 64});
    below_ = put({30, kCode + 5, 0, 0, 0, 0, 0});
    memory_.poke(link + 16, below_);
  }
  std::uint64_t put(const std::vector<std::uint64_t>& words) {
    const std::uint64_t at = memory_.end();
    for (const std::uint64_t word : words) memory_.put(word);
    return at;
  }

  FakeMemory memory_{kBase};
  FrameTable table_;
  SavedStack saved_;
  std::uint64_t below_ = 0;
};

TEST_F(Stack, EachValueIsInItsFrame) {
  StackSlots slots(memory_, table_);
  slots.add(saved_);
  EXPECT_EQ(kCode + 1, slots.frame_of(saved_.stack));
  EXPECT_EQ(kCode + 1, slots.frame_of(saved_.stack + 8));
  EXPECT_EQ(0u, slots.frame_of(saved_.stack + 16));
  EXPECT_EQ(kCode + 2, slots.frame_of(saved_.stack + 32 + 8));
  EXPECT_EQ(kCode + 2, slots.frame_of(kBase + 8 * 2)) << "the third register";
  EXPECT_EQ(kCode + 4, slots.frame_of(below_)) << "in the chunk before";
}

TEST_F(Stack, TheWalkEndsWithAnyContents) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2'000; ++i) {
    FakeMemory damaged = memory_;
    const std::uint64_t words = (damaged.end() - kBase) / 8;
    for (int n = 0; n < 4; ++n) {
      const std::uint64_t values[] = {random(), kCode + 1 + random() % 5, saved_.stack,
                                      kBase + 8 * (random() % words)};
      damaged.poke(kBase + 8 * (random() % words), values[random() % 4]);
    }
    StackSlots slots(damaged, table_);
    slots.add(saved_);
    slots.add(SavedStack{kBase + 8 * (random() % words), kCode + 1 + random() % 5, random()});
    slots.add(SavedFiber{kBase + 8 * (random() % words), kBase + 8 * (random() % words)});
  }
}

// A fiber that returns to itself, and whose frames hold thousands of values each.
TEST_F(Stack, WalksOfFibersHaveAnEndInCommon) {
  std::vector<FrameDescriptor> frames{
      {kCode + 6, put_descriptor(memory_, kCode + 6, 8, std::vector<std::uint16_t>(4096)), 8}};
  const FrameTable table(std::move(frames));
  const std::uint64_t stack = put(std::vector<std::uint64_t>(500, kCode + 6)), end = memory_.end();
  put({0, 0, 0, end + 32});
  put({stack, 0, end});
  FiberWalk walk(memory_, table, 1'000'000);
  std::uint64_t told = 0;
  const auto count = [&](std::uint64_t, std::span<const FiberWalk::Slot> slots) {
    told += slots.size();
    return true;
  };
  walk.walk({.fiber = end + 32}, count);
  EXPECT_TRUE(walk.cut());
  EXPECT_GT(told, 900'000u);
  EXPECT_LE(told, 1'000'000u);
  walk.walk({.fiber = end + 32}, count);
  EXPECT_LE(told, 1'000'000u);
}

// The walk would stay where it is.
TEST_F(Stack, AFrameOfNoBytesEndsIt) {
  std::vector<FrameDescriptor> frames{{kCode + 6, put_descriptor(memory_, kCode + 6, 2, {0}), 2}};
  const FrameTable table(std::move(frames));
  const std::uint64_t stack = put({kCode + 6, 0}), end = memory_.end();
  put({0, 0, 0, 0});
  const std::uint64_t fiber = put({stack, 0, end});
  FiberWalk walk(memory_, table);
  int told = 0;
  walk.walk({.fiber = fiber}, [&](auto, auto) { return ++told != 0; });
  EXPECT_EQ(told, 0);
}

// A fiber whose OCaml code calls C code that calls OCaml code, and the one that it returns to.
TEST_F(Stack, EachValueIsInTheFrameOfItsFiber) {
  // The parent's frame of 16 bytes, then its end.
  const std::uint64_t parent_stack = put({kCode + 4, 40, kCode + 5, 0, 0, 0, kBase});
  const std::uint64_t parent_end = memory_.end();
  put({0, 0, 0, 0});
  const std::uint64_t parent = put({parent_stack, 0, parent_end});
  const std::uint64_t registers = put(std::vector<std::uint64_t>(8));
  const std::uint64_t stack = put({kCode + 1, 10, 11, 12, kCode + 3,  // a frame of 32 bytes
                                   0, 0, 0, registers,                // of caml_start_program
                                   kCode + 2, 20, kCode + 5,          // one of 16, called from C
                                   0, 0, 0, kBase});
  const std::uint64_t end = memory_.end();
  put({0, 0, 0, parent});
  const std::uint64_t fiber = put({stack, 0, end});
  StackSlots slots(memory_, table_);
  slots.add(SavedFiber{.fiber = fiber, .registers = kBase});
  EXPECT_EQ(kCode + 1, slots.frame_of(stack + 8));
  EXPECT_EQ(kCode + 1, slots.frame_of(stack + 16));
  EXPECT_EQ(kCode + 2, slots.frame_of(stack + 80 + 8));
  EXPECT_EQ(kCode + 2, slots.frame_of(registers + 8 * 2)) << "the third register";
  EXPECT_EQ(kCode + 4, slots.frame_of(parent_stack + 8));
  EXPECT_EQ(0u, slots.frame_of(stack));
}

TEST_F(Stack, FibersThatLeadToEachOtherEnd) {
  const std::uint64_t fiber = memory_.end();
  put({fiber + 24, 0, fiber + 24, 0, 0, 0, fiber});
  StackSlots slots(memory_, table_);
  slots.add(SavedFiber{.fiber = fiber});
  EXPECT_EQ(0u, slots.frame_of(fiber));
}

TEST(ModuleBlocks, ASlotIsAFieldOfAModule) {
  FakeMemory memory(kBase);
  const auto put = [&](const std::vector<std::uint64_t>& words) {
    const std::uint64_t at = memory.end();
    for (const std::uint64_t word : words) memory.put(word);
    return at;
  };
  const std::uint64_t first = put(block(3, 0)) + 8;
  const std::uint64_t other = put(block(2, 0)) + 8;
  const std::uint64_t unnamed = put(block(1, 0)) + 8;
  const std::uint64_t without_frames = put(block(1, 0)) + 8;
  const std::uint64_t lists[] = {put({first, other, 0}), put({unnamed, 0}),
                                 put({without_frames, 0})};
  const std::uint64_t no_frames = put({0});  // what follows is of another module
  const std::uint64_t count = put({1});
  const std::uint64_t descriptor = put_descriptor(memory, kCode, 16, {});
  const std::uint64_t globals = put({lists[0], lists[1], lists[2], 0});
  const std::uint64_t tables = put({1, 1, count, memory.end() + 4096, no_frames, 0});
  testing::FakeSymbolizer symbolizer;
  symbolizer.table[kCode] = {.function = "Cache.find"};
  const FrameTable frames({{kCode, descriptor, 16}});
  const ModuleBlocks modules = ModuleBlocks::read(memory, {globals, tables}, frames, symbolizer);
  const auto place = modules.find(first + 16);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ("Cache", place->module);
  EXPECT_EQ(2u, place->field);
  EXPECT_EQ("Cache", modules.find(other)->module);
  EXPECT_FALSE(modules.find(other)->field.has_value());
  EXPECT_EQ("", modules.find(unnamed)->module);
  EXPECT_EQ("", modules.find(without_frames)->module);
  EXPECT_FALSE(modules.find(first + 24).has_value());
  EXPECT_FALSE(modules.find(first - 8).has_value());
}

// Contents of each entry of a runtime, in order.
using EntryWords = std::vector<std::uint64_t> (*)(std::uint64_t block, std::uint64_t samples,
                                                  std::uint64_t number);

void expect_entries_around_numbers(const RuntimeAbi& abi, EntryWords words_of, std::size_t place) {
  FakeMemory memory(kBase);
  std::vector<memprof_root> roots;
  const auto put = [&](std::uint64_t block, std::uint64_t samples, std::uint64_t number) {
    const std::uint64_t slot = memory.end() + 8 * place;
    for (const std::uint64_t word : words_of(block, samples, number)) memory.put(word);
    roots.push_back({slot, number});
  };
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    // Odd: its callback is still to come, or it died.
    put(i % 3 == 0 ? 1 : kBase + 8 * i, i + 1, (i + 1) << 1 | 1);
  }
  put(kBase, 7, 1);      // of no block any more
  put(kBase, 1, kBase);  // a callstack
  std::shuffle(roots.begin(), roots.end(), std::mt19937(1));
  const auto entries = read_memprof_entries(memory, abi, roots);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_THAT(*entries, SizeIs(50'000));
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    ASSERT_EQ(i + 1, (*entries)[i].sample_id);
    ASSERT_EQ(i + 1, (*entries)[i].samples);
    ASSERT_EQ(i % 3 == 0 ? 0 : kBase + 8 * i, (*entries)[i].block);
  }
  EXPECT_LT(memory.reads, 100);
  EXPECT_FALSE(read_memprof_entries(memory, abi, {{kBase - 8, 3}}).ok());
  EXPECT_THAT(*read_memprof_entries(memory, abi, {}), IsEmpty());
}

TEST(MemprofEntries, AreAroundTheirNumbers) {
  const auto of_ocaml4 = [](std::uint64_t block, std::uint64_t samples, std::uint64_t number) {
    return std::vector<std::uint64_t>{block, samples, 5, number};
  };
  expect_entries_around_numbers(runtime_abi_for("4.14").value(), of_ocaml4, 3);
  const auto of_ocaml5 = [](std::uint64_t block, std::uint64_t samples, std::uint64_t number) {
    return std::vector<std::uint64_t>{block, number, samples, 5, 0};
  };
  expect_entries_around_numbers(runtime_abi_for("5.3.0").value(), of_ocaml5, 1);
}

// ---------------------------------------------------------------------- ephemerons

TEST(EphemeronList, OCaml4LinksOneToTheNext) {
  FakeChunks heap;
  const std::uint64_t none = heap.put({42});
  const std::uint64_t last = heap.put(block(3, 251, kBlack, 0));
  const std::uint64_t first = heap.put(block(2, 251, kBlack, last + 8));
  HeapLayout layout = heap.layout();
  const std::uint64_t head = heap.put({first + 8});
  layout.first_ephemeron = head;
  EXPECT_THAT(read_ephemerons(heap.memory, layout, {}).blocks, IsEmpty()) << "what is empty?";
  layout.no_key = none;
  const Ephemerons found = read_ephemerons(heap.memory, layout, {});
  EXPECT_THAT(found.blocks, ::testing::UnorderedElementsAre(first, last));
  EXPECT_EQ(42u, found.nothing);
  heap.memory.poke(last + 8, first + 8);
  EXPECT_THAT(read_ephemerons(heap.memory, layout, {}).blocks, SizeIs(2)) << "a circle";
  heap.memory.poke(last + 8, std::uint64_t{0x123456789});
  EXPECT_THAT(read_ephemerons(heap.memory, layout, {}).blocks, SizeIs(2));
}

TEST(EphemeronList, OfOCaml5HasThoseToBeMarkedAndThoseThatAre) {
  FakePools heap;
  const std::uint64_t waits = heap.put(block(3, 251, 0, 0));
  const std::uint64_t marked = heap.put(block(3, 251, 0, 0));
  heap.poke_state(heap.abi.local_roots + 8, heap.put({waits + 8, marked + 8}));
  HeapLayout layout = heap.layout();
  layout.no_key = heap.put({42});
  const std::vector<std::uint64_t> states{FakeHeap::kState, 0x5};
  EXPECT_THAT(read_ephemerons(heap.memory, layout, states).blocks,
              ::testing::UnorderedElementsAre(waits, marked));
}

// ---------------------------------------------------------------------- finalisers

// Entries, how many are old, how many there are, room.
std::vector<std::uint64_t> finalisers(std::uint64_t entries, std::uint64_t count) {
  return {entries, 1, count, count + 3};
}

TEST(FinaliserTables, OfOCaml4AreTwoOfTheProgram) {
  FakeChunks heap;
  FinaliserAddresses at{.first = heap.put(finalisers(0x70000, 2))};
  const std::vector<std::uint64_t> states{FakeHeap::kState};
  const auto read = [&] { return FinaliserTables::read(heap.memory, heap.abi, at, states); };
  EXPECT_EQ("", read().kind_of(0, 0x70000)) << "the other one is not known";
  at.last = heap.put(finalisers(0x80000, 1));
  const auto tables = read();
  EXPECT_EQ("Gc.finalise", tables.kind_of(0, 0x70000));
  EXPECT_EQ("Gc.finalise", tables.kind_of(0, 0x70018));
  EXPECT_EQ("to run", tables.kind_of(0, 0x70030)) << "behind the last one that is there";
  EXPECT_EQ("Gc.finalise_last", tables.kind_of(0, 0x80000));
  EXPECT_EQ("to run", tables.kind_of(0, 0x80018));
  EXPECT_EQ("", tables.kind_of(1, 0x70000)) << "no such domain";
  heap.memory.poke(at.last + 16, std::uint64_t{5});
  EXPECT_EQ("", read().kind_of(0, 0x70000)) << "more than there is room for";
}

TEST(FinaliserTables, OfOCaml5AreEachDomains) {
  FakePools heap;
  std::vector<std::uint64_t> info = finalisers(0, 0);
  info[1] = info[3] = 0;
  info.push_back(0);  // whether the first ones were scanned
  for (const std::uint64_t word : finalisers(0x80000, 1)) info.push_back(word);
  heap.poke_state(heap.abi.local_roots + 16, heap.put(info));
  const std::vector<std::uint64_t> states{FakeHeap::kState, 0x5};
  const auto tables = FinaliserTables::read(heap.memory, heap.abi, {}, states);
  EXPECT_EQ("Gc.finalise_last", tables.kind_of(0, 0x80000));
  EXPECT_EQ("to run", tables.kind_of(0, 0x70000)) << "nobody has called Gc.finalise";
  EXPECT_EQ("", tables.kind_of(1, 0x80000)) << "its state cannot be read";
}

}  // namespace
}  // namespace memprofd
