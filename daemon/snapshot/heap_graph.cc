// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_graph.h"

#include <utility>

#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/heap_walk.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// The first walk: collects blocks and what they are. Blocks come in the order of their addresses,
// and are numbered in that order.
class BlockCollector {
 public:
  explicit BlockCollector(HeapGraph& graph) : graph_(graph) {}
  void operator()(const HeapRegion&, const BlockPart& part) {
    if (part.first != 0 || part.state != BlockState::kUsed) return;
    graph_.index.add(part.address);
    graph_.words.push_back(part.words);
    graph_.tags.push_back(static_cast<std::uint8_t>(tag_of(part.header)));
  }

 private:
  HeapGraph& graph_;
};

// The second walk, over the same blocks: collects their pointers.
class EdgeCollector {
 public:
  explicit EdgeCollector(HeapGraph& graph) : graph_(graph) {}
  void operator()(const HeapRegion&, const BlockPart& part) {
    if (part.state != BlockState::kUsed) return;
    if (part.first == 0) {
      graph_.edges.first.push_back(static_cast<std::uint32_t>(graph_.edges.to.size()));
    }
    if (!holds_values(part.header)) return;
    for (const std::uint64_t field : part.fields) {
      const std::uint32_t block = graph_.held_by(field);
      if (block != BlockIndex::kNone) graph_.edges.to.push_back(block);
    }
  }

 private:
  HeapGraph& graph_;
};

}  // namespace

// A closure of several functions holds all of them; a pointer to any but the first points into it.
std::uint32_t HeapGraph::held_by(std::uint64_t value) const {
  if (value % kWordBytes != 0) return BlockIndex::kNone;
  const std::uint32_t block = index.find(value);
  if (block != BlockIndex::kNone) return block;
  const std::uint32_t before = index.find_before(value);
  if (before == BlockIndex::kNone || tags[before] != kClosureTag) return BlockIndex::kNone;
  const std::uint64_t words_in = (value - index.address_of(before)) / kWordBytes;
  return words_in < words[before] ? before : BlockIndex::kNone;
}

absl::StatusOr<HeapGraph> build_heap_graph(const MemoryReader& memory, const HeapMap& map) {
  HeapGraph graph{.index = BlockIndex(map), .words = {}, .tags = {}, .edges = {}};
  RETURN_IF_ERROR(walk_heap(memory, map, BlockCollector(graph)));
  if (!graph.index.number_blocks()) {
    return absl::ResourceExhaustedError("the heap has more than 4,294,967,295 blocks");
  }
  graph.edges.first.reserve(graph.words.size() + 1);
  RETURN_IF_ERROR(walk_heap(memory, map, EdgeCollector(graph)));
  graph.edges.first.push_back(static_cast<std::uint32_t>(graph.edges.to.size()));
  if (graph.edges.to.size() >= BlockIndex::kNone) {
    return absl::ResourceExhaustedError("the heap has more than 4,294,967,295 pointers");
  }
  if (graph.words.size() != graph.index.size() ||
      graph.edges.first.size() != graph.words.size() + 1) {
    return absl::DataLossError("the heap has changed while it was read");
  }
  return graph;
}

}  // namespace memprofd
