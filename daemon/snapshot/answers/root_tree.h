// SPDX-License-Identifier: Apache-2.0
// The roots of a heap as a tree above its blocks: all roots, their kinds, modules or threads,
// fields or frames. As nodes of the graph they can retain something together that none of them
// retains alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/heap_image.h"

namespace memprofd {

struct RootNode {
  std::uint32_t parent = 0;  // index in RootTree::nodes; the first is its own parent
  std::uint32_t depth = 0;   // 0: all roots
  std::string name;  // "globals", "Cache", "field 2" or "table", "Server.handle server.ml:42"
};

struct RootTree {
  std::vector<RootNode> nodes;         // each after its parent; the first is all roots
  std::vector<std::uint32_t> of_name;  // node by number of a root's name
};

// "globals", "stacks".
const char* root_kind_text(RootKind kind);
// One line: "global Cache, field 2", "global Cache.table" if types provide the name, "stack of
// thread 7, Server.handle server.ml:42".
std::string root_text(const RootName& name);
// "Server.handle server.ml:42"; without a file only the function.
std::string place_text(const Location& place);

// Merges the stacks of threads that hold blocks at the same location into one name if they are more
// than kFewThreads: "stack of 500 threads, Server.watch server.ml:42". Each alone may be too small
// for a row.
inline constexpr std::size_t kFewThreads = 8;
void join_threads(HeapImage& image);

RootTree make_root_tree(const HeapImage& image);
// While this exists, the image's edges also contain the tree's nodes, numbered after the blocks.
class RootsInGraph {
 public:
  RootsInGraph(const RootTree& tree, HeapImage& image);
  ~RootsInGraph();
  RootsInGraph(const RootsInGraph&) = delete;
  RootsInGraph& operator=(const RootsInGraph&) = delete;

 private:
  EdgeLists& edges_;
  const std::size_t nodes_;  // number of nodes of the image alone
};

}  // namespace memprofd
