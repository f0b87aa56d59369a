// SPDX-License-Identifier: Apache-2.0
// Reachability in a graph from some entries, and dominators: a node dominates another if every path
// from an entry to the other goes through it. A node retains the sum of all nodes that it
// dominates, itself included: the memory that would be freed if it were gone.
//
// The algorithm is semi-NCA (Georgiadis, Linear-Time Algorithms for Dominators and Related
// Problems, 2005): semi-dominators by path compression over a depth-first search, then the nearest
// common ancestor. Everything is a loop: a list of ten million cells is as deep as it is long.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/snapshot/heap_graph.h"

namespace memprofd {

class DominatorTree {
 public:
  // Dominates nodes that several entries reach; not a node of the graph.
  static constexpr std::uint32_t kRoot = ~0u;
  static constexpr std::uint32_t kUnreachable = ~0u - 1;

  // Entries may be repeated; entries that are not nodes are ignored. Takes 4 bytes per node and 8
  // per reachable node. During the call it takes 20 per reachable node instead of both, and 4 for
  // each further pointer to a node, except for a leaf with one pointer.
  DominatorTree(const EdgeLists& edges, std::span<const std::uint32_t> entries);

  bool is_reachable(std::uint32_t node) const { return number_[node] != 0; }
  std::uint32_t reachable() const { return static_cast<std::uint32_t>(order_.size() - 1); }
  // The nearest node that dominates the node, or kRoot, or kUnreachable.
  std::uint32_t dominator_of(std::uint32_t node) const;
  // Reachable nodes, each after its dominator.
  std::span<const std::uint32_t> order() const { return std::span(order_).subspan(1); }
  // The position in order() of each node's dominator, counted from 1, in the order of order(); 0:
  // kRoot. Afterwards only order() may be called.
  std::span<std::uint32_t> take_dominators() {
    std::vector<std::uint32_t>().swap(number_);
    return std::span(dominator_).subspan(1);
  }

  // The retained sum of each node, given the nodes' weights; 0 if unreachable.
  std::vector<std::uint64_t> retained(std::span<const std::uint64_t> weights) const;

 private:
  void add(std::uint32_t node, std::uint32_t parent);
  // Numbers in the order of the search, from 1 on; 0 is the root.
  void search(const EdgeLists& edges, std::span<const std::uint32_t> entries,
              const std::vector<bool>& is_leaf);
  void find_semidominators(const EdgeLists& edges, std::span<const std::uint32_t> entries);
  void find_dominators();
  void add_leaves(const EdgeLists& edges, const std::vector<bool>& is_leaf);

  std::vector<std::uint32_t> number_;     // indexed by node; 0: not reached
  std::vector<std::uint32_t> order_;      // node by number
  std::vector<std::uint32_t> dominator_;  // indexed by number; during the search it contains the
                                          // parent
  std::vector<std::uint32_t> semi_;       // indexed by number
};

}  // namespace memprofd
