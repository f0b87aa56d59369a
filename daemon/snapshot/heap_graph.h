// SPDX-License-Identifier: Apache-2.0
// The graph of a heap: its blocks by number, with tag and size, and the pointers between them.
// Omits blocks that the collector knows to be dead.
//
// Omits words that do not point to a block (integers, code, static data of the program, native
// memory). Ephemerons and weak arrays keep nothing alive here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/snapshot/block_index.h"
#include "daemon/snapshot/edge_offsets.h"
#include "daemon/snapshot/heap_map.h"

namespace memprofd {

// The edges of a graph by source node: those of node i are to[first[i]] up to to[first[i + 1]].
struct EdgeLists {
  EdgeOffsets first;  // one more entry than there are nodes
  std::vector<std::uint32_t> to;

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(first.size() - 1); }
  std::span<const std::uint32_t> of(std::uint32_t node) const {
    return std::span(to).subspan(first[node], first[node + 1] - first[node]);
  }
};

struct HeapGraph {
  BlockIndex index;
  std::vector<std::uint64_t> words;  // size of each block, including the header
  std::vector<std::uint8_t> tags;
  EdgeLists edges;

  // The block that a value in a root or a field keeps alive; BlockIndex::kNone: none.
  std::uint32_t held_by(std::uint64_t value) const;
};

// Reads the heap twice; the memory must not change meanwhile. Returns the errors of walk_heap();
// kResourceExhausted for more than 2^32 - 2 blocks or pointers.
absl::StatusOr<HeapGraph> build_heap_graph(const MemoryReader& memory, const HeapMap& map);

}  // namespace memprofd
