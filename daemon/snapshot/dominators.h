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
  // Dominates what several entries reach; no node of the graph.
  static constexpr std::uint32_t kRoot = ~0u;
  static constexpr std::uint32_t kUnreachable = ~0u - 1;

  // Entries may be there several times; those that are no nodes are left out. Takes 4 bytes for
  // every node, and for each reachable one 8; during the call 20 instead of both, and 4 for each
  // further pointer to it, where it is not a leaf that one pointer leads to.
  DominatorTree(const EdgeLists& edges, std::span<const std::uint32_t> entries);

  bool is_reachable(std::uint32_t node) const { return number_[node] != 0; }
  std::uint32_t reachable() const { return static_cast<std::uint32_t>(order_.size() - 1); }
  // The nearest node that dominates it, or kRoot, or kUnreachable.
  std::uint32_t dominator_of(std::uint32_t node) const;
  // Reachable nodes, each behind the one that dominates it.
  std::span<const std::uint32_t> order() const { return std::span(order_).subspan(1); }
  // For each node of order(), the position in order() of its dominator, counted from 1; 0: kRoot.
  // Afterwards only order() may be called.
  std::span<std::uint32_t> take_dominators() {
    std::vector<std::uint32_t>().swap(number_);
    return std::span(dominator_).subspan(1);
  }

  // For each node, given their weights, the retained sum; 0 if unreachable.
  std::vector<std::uint64_t> retained(std::span<const std::uint64_t> weights) const;

 private:
  void add(std::uint32_t node, std::uint32_t parent);
  // Numbers in the order of the search, from 1 on; 0 is the root.
  void search(const EdgeLists& edges, std::span<const std::uint32_t> entries,
              const std::vector<bool>& is_leaf);
  void find_semidominators(const EdgeLists& edges, std::span<const std::uint32_t> entries);
  void find_dominators();
  void add_leaves(const EdgeLists& edges, const std::vector<bool>& is_leaf);

  std::vector<std::uint32_t> number_;     // by node; 0: not reached
  std::vector<std::uint32_t> order_;      // the node, by number
  std::vector<std::uint32_t> dominator_;  // by number; during the search the parent there
  std::vector<std::uint32_t> semi_;       // by number
};

}  // namespace memprofd
