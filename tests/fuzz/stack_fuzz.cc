// SPDX-License-Identifier: Apache-2.0
// Stacks of a program's copy walked by its frame tables, Memprof's entries, blocks of modules.
// Input: a fiber, registers, addresses of the runtime's roots, then the memory, whose first region
// begins with caml_frametable.
#include "agent-lib/include/memprof_snapshot_abi.h"
#include "daemon/discover/frame_table.h"
#include "daemon/heapdump/fiber_walk.h"
#include "daemon/heapdump/memprof_entries.h"
#include "daemon/heapdump/stack_slots.h"
#include "daemon/runtime/runtime_abi.h"
#include "daemon/snapshot/module_blocks.h"
#include "tests/fuzz/fuzz_memory.h"
#include "tests/kit/fake_memory.h"
#include "tests/kit/fake_service.h"

namespace memprofd::fuzz {
namespace {

constexpr std::uint64_t kTables = 0x10000;
constexpr std::uint64_t kCode = 0x400000;

struct Places {
  std::uint64_t fiber, registers, roots, globals;
};

std::size_t walk_all(const FuzzMemory& memory, const FrameTable& table, const Places& places) {
  std::size_t slots = 0;
  FiberWalk(memory, table)
      .walk({places.fiber, places.registers},
            [&](std::uint64_t, std::span<const FiberWalk::Slot> found) {
              slots += found.size();
              return true;
            });
  StackSlots stacks(memory, table);
  stacks.add(SavedStack{places.fiber, kCode, places.registers});
  stacks.add(SavedFiber{places.fiber, places.registers});
  (void)stacks.frame_of(places.fiber);
  return slots;
}

void read_roots(const FuzzMemory& memory, std::uint64_t at) {
  std::vector<memprof_root> roots;
  for (memprof_root root{}; roots.size() < 100; at += sizeof root) {
    if (!memory.read_value(at, root).ok()) break;
    roots.push_back(root);
  }
  for (const char* version : {"4.13.1", "5.3.0"}) {
    const auto entries = read_memprof_entries(memory, runtime_abi_for(version).value(), roots);
    if (entries.ok()) require(entries->size() <= roots.size(), "more entries than roots");
  }
}

bool read(std::string_view bytes) {
  Input input(bytes);
  const auto places = input.take<Places>();
  const FuzzMemory memory(input);
  const auto budget = std::make_shared<ByteBudget>(1u << 20);
  const auto table = read_frame_table(memory, memory.mappings(), kTables, budget);
  if (!table.ok()) return false;
  read_roots(memory, places.roots);
  testing::FakeSymbolizer symbolizer;
  const auto blocks = ModuleBlocks::read(memory, {places.globals, kTables}, *table, symbolizer);
  for (const auto& module : blocks.modules()) (void)blocks.find(module.fields);
  return walk_all(memory, *table, places) > 0;
}

// ------------------------------------------------------------ seeds

// A descriptor whose frame has 16 bytes and one value, at its begin.
void put_descriptor(FakeMemory& memory, std::uint64_t code, std::uint16_t frame_bytes) {
  memory.put(code);
  memory.put(frame_bytes);
  memory.put(std::uint16_t{1});
  memory.put(std::uint16_t{0});
  memory.align(8);
}

std::vector<std::string> seeds() {
  FakeMemory memory(kTables);
  for (const std::uint64_t word :
       {kTables + 24, std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{2}}) {
    memory.put(word);
  }
  put_descriptor(memory, kCode, 16);
  put_descriptor(memory, kCode + 16, 0xffff);
  Places places{.fiber = memory.end(), .registers = kTables, .roots = 0, .globals = 0};
  const std::uint64_t stack = memory.end() + 24, end = stack + 8 * 8;
  for (const std::uint64_t word : {stack, std::uint64_t{0}, end}) memory.put(word);
  for (const std::uint64_t word : {kCode, std::uint64_t{7}, kCode, std::uint64_t{9}, kCode + 16,
                                   std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{0}}) {
    memory.put(word);
  }
  for (int i = 0; i < 4; ++i) memory.put(std::uint64_t{0});  // the handler, and no other fiber
  places.roots = memory.end();
  memory.put(memprof_root{.slot = stack + 32, .value = 7});
  places.globals = memory.end();
  for (const std::uint64_t word :
       {memory.end() + 16, std::uint64_t{0}, memory.end() + 40, std::uint64_t{0},
        std::uint64_t{2 << 10}, std::uint64_t{1}, std::uint64_t{3}}) {
    memory.put(word);
  }
  std::string bytes;
  put(bytes, places);
  put_region(bytes, memory);
  return {bytes};
}

const Add added("stack", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
