// SPDX-License-Identifier: Apache-2.0
// The heap of a program's copy: its lists, and every block reachable from them. Input: index in
// kVersions, address of its orphans, then the memory, whose first region begins with the variables
// that the layout names and the state of its domain.
#include <iterator>

#include "daemon/snapshot/heap_census.h"
#include "daemon/snapshot/heap_walk.h"
#include "tests/fuzz/fuzz_memory.h"
#include "tests/kit/fake_heap.h"

namespace memprofd::fuzz {
namespace {

constexpr const char* kVersions[] = {"4.13.1", "5.3.0", "5.5.0"};

HeapLayout layout_of(std::size_t version, std::uint64_t orphans) {
  constexpr std::uint64_t kAt = FakeHeap::kVariables;
  const RuntimeAbi abi = runtime_abi_for(kVersions[version]).value();
  if (!abi.domains) return {abi, ChunkHeap{kAt, kAt + 8, kAt + 16}};
  PoolHeap heap{.colours = kAt, .orphans = orphans};
  for (std::uint32_t i = 0; i < 32; ++i) heap.slot_words[i] = i == 31 ? 128 : i + 1;
  return {abi, heap};
}

void check(const HeapMap& map) {
  std::uint64_t end = 0;
  for (const HeapRegion& region : map.regions) {
    require(region.begin >= end && region.end() > region.begin, "regions share a word");
    end = region.end();
  }
}

bool read(std::string_view bytes) {
  Input input(bytes);
  const std::size_t version = input.take<std::uint8_t>() % std::size(kVersions);
  const auto orphans = input.take<std::uint64_t>();
  const FuzzMemory memory(input);
  const std::uint64_t states[] = {FakeHeap::kState};
  const auto map = map_heap(memory, layout_of(version, orphans), states);
  if (!map.ok()) return false;
  check(*map);
  HeapCensus census;
  std::uint64_t blocks = 0;
  const absl::Status walked =
      walk_heap(memory, *map, [&](const HeapRegion& region, const BlockPart& part) {
        const std::uint64_t begin = part.address + 8 * part.first;
        require(region.begin <= part.address && begin + 8 * part.fields.size() <= region.end(),
                "a block that is not in its region");
        census(region, part);
        blocks += part.first == 0;
      });
  return walked.ok() && blocks > 0;
}

// ------------------------------------------------------------ seeds

std::string seed(int version, std::uint64_t orphans, const FakeMemory& memory) {
  std::string bytes(1, static_cast<char>(version));
  put(bytes, orphans);
  put_region(bytes, memory);
  return bytes;
}

std::vector<std::vector<std::uint64_t>> blocks() {
  return {block(3, 0), block(1, 252), block(5, 247, kWhite), block(2, 0, kBlue)};
}

std::string chunks() {
  FakeChunks heap;
  for (int i = 0; i < 3; ++i) heap.put_chunk(joined(blocks()));
  heap.sweep_from(heap.put_chunk(joined(blocks())));
  heap.put_minor_heap(joined({block(2, 0), block(4, 0)}));
  return seed(0, 0, heap.memory);
}

std::string pools(int version) {
  FakePools heap(kVersions[version]);
  heap.put_pool(7, blocks());
  heap.put_large(block(300, 0));
  heap.put_minor_heap(joined({block(2, 0), block(4, 0)}));
  return seed(version, std::get<PoolHeap>(heap.layout().heap).orphans, heap.memory);
}

std::vector<std::string> seeds() { return {chunks(), pools(1), pools(2)}; }

const Add added("heap_walk", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
