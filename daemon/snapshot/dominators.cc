// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/dominators.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace memprofd {
namespace {

using Numbers = std::vector<std::uint32_t>;

// Nodes with a single incoming pointer and no outgoing one: the block with the pointer dominates
// them. They are a large part of all nodes (strings, numbers), and are left out until the end.
std::vector<bool> find_leaves(const EdgeLists& edges, std::span<const std::uint32_t> entries) {
  std::vector<bool> is_held(edges.nodes());
  std::vector<bool> is_other(edges.nodes());
  for (const std::uint32_t entry : entries) {
    if (entry < edges.nodes()) is_other[entry] = true;
  }
  for (const std::uint32_t to : edges.to) {
    if (is_held[to]) is_other[to] = true;
    is_held[to] = true;
  }
  for (std::uint32_t node = 0; node < edges.nodes(); ++node) {
    if (is_other[node] || !edges.of(node).empty()) is_held[node] = false;
  }
  return is_held;
}

// Predecessors of nodes, by number, except their parents in the search.
struct AlternativePaths {
  Numbers first;
  Numbers from;
};
AlternativePaths other_ways(const EdgeLists& edges, const Numbers& number, const Numbers& order,
                            const Numbers& parent) {
  AlternativePaths ways;
  ways.first.resize(order.size());
  const auto each = [&](auto visit) {
    for (auto from = static_cast<std::uint32_t>(order.size()) - 1; from > 0; --from) {
      for (const std::uint32_t node : edges.of(order[from])) {
        const std::uint32_t to = number[node];
        if (to != 0 && parent[to] != from) visit(from, to);
      }
    }
  };
  each([&](std::uint32_t, std::uint32_t to) { ++ways.first[to]; });
  std::inclusive_scan(ways.first.begin(), ways.first.end(), ways.first.begin());
  ways.from.resize(ways.first.back());
  each([&](std::uint32_t from, std::uint32_t to) { ways.from[--ways.first[to]] = from; });
  return ways;
}

// The forest of nodes whose semi-dominators are known. A query returns the node with the least
// semi-dominator on the path upwards, and compresses that path.
class Forest {
 public:
  // ancestors: has room for one per node.
  Forest(Numbers ancestors, const Numbers& semi)
      : ancestor_(std::move(ancestors)), label_(ancestor_.size()), semi_(semi) {
    std::iota(label_.begin(), label_.end(), 0);
  }

  // Adds a node; all later nodes are in the forest by then.
  void link(std::uint32_t node, std::uint32_t parent) {
    ancestor_[node] = parent;
    linked_ = node;
  }
  // The initial value of a node that is not in the forest yet.
  std::uint32_t given(std::uint32_t node) const { return ancestor_[node]; }

  std::uint32_t least_above(std::uint32_t node) {
    if (node < linked_) return node;
    if (ancestor_[node] < linked_) return label_[node];
    for (; ancestor_[node] >= linked_; node = ancestor_[node]) way_.push_back(node);
    std::uint32_t above = node;
    while (!way_.empty()) {
      node = way_.back();
      way_.pop_back();
      ancestor_[node] = ancestor_[above];
      if (semi_[label_[above]] < semi_[label_[node]]) label_[node] = label_[above];
      above = node;
    }
    return label_[above];
  }

 private:
  Numbers ancestor_;
  Numbers label_;
  const Numbers& semi_;
  Numbers way_;
  std::uint32_t linked_ = ~0u;
};

}  // namespace

DominatorTree::DominatorTree(const EdgeLists& edges, std::span<const std::uint32_t> entries)
    : number_(edges.nodes()) {
  // Unused capacity takes no memory.
  for (Numbers* by_number : {&order_, &dominator_, &semi_}) by_number->reserve(edges.nodes() + 1);
  order_.push_back(kRoot);
  dominator_.push_back(0);
  semi_.push_back(0);
  const std::vector<bool> is_leaf = find_leaves(edges, entries);
  search(edges, entries, is_leaf);
  find_semidominators(edges, entries);
  find_dominators();
  add_leaves(edges, is_leaf);
}

void DominatorTree::add(std::uint32_t node, std::uint32_t parent) {
  number_[node] = static_cast<std::uint32_t>(order_.size());
  order_.push_back(node);
  dominator_.push_back(parent);
}

// The path to the current node consists of parents; semi_ holds the next edge of each node.
void DominatorTree::search(const EdgeLists& edges, std::span<const std::uint32_t> entries,
                           const std::vector<bool>& is_leaf) {
  for (const std::uint32_t entry : entries) {
    if (entry >= edges.nodes() || number_[entry] != 0) continue;
    add(entry, 0);
    semi_.push_back(edges.first[entry]);
    for (std::uint32_t at = number_[entry]; at != 0;) {
      if (semi_[at] == edges.first[order_[at] + 1]) {
        at = dominator_[at];
        continue;
      }
      const std::uint32_t to = edges.to[semi_[at]++];
      if (number_[to] != 0 || is_leaf[to]) continue;
      add(to, at);
      semi_.push_back(edges.first[to]);
      at = number_[to];
    }
  }
}

void DominatorTree::find_semidominators(const EdgeLists& edges,
                                        std::span<const std::uint32_t> entries) {
  Numbers().swap(semi_);  // it is needed again when number_ is gone
  AlternativePaths ways = other_ways(edges, number_, order_, dominator_);
  std::vector<bool> is_entry(order_.size());
  for (const std::uint32_t entry : entries) {
    if (entry < edges.nodes()) is_entry[number_[entry]] = true;
  }
  Numbers().swap(number_);  // order_ has the same data until this step, which takes the most
                            // memory, is over
  semi_.resize(order_.size());
  std::iota(semi_.begin(), semi_.end(), 0);
  // The beginning of a node's predecessors is not needed any more once the node is in the forest.
  std::size_t end = ways.from.size();
  Forest forest(std::move(ways.first), semi_);
  for (auto i = static_cast<std::uint32_t>(order_.size()) - 1; i > 0; --i) {
    std::uint32_t least = is_entry[i] ? 0 : dominator_[i];
    const std::size_t begin = forest.given(i);
    for (std::size_t way = begin; way < end; ++way) {
      least = std::min(least, semi_[forest.least_above(ways.from[way])]);
    }
    end = begin;
    semi_[i] = least;
    forest.link(i, dominator_[i]);
  }
}

// A node's dominator is its nearest ancestor in the search that is not after its semi-dominator.
void DominatorTree::find_dominators() {
  for (std::uint32_t i = 1; i < order_.size(); ++i) {
    std::uint32_t dominator = dominator_[i];
    while (dominator > semi_[i]) dominator = dominator_[dominator];
    dominator_[i] = dominator;
  }
  Numbers().swap(semi_);
}

void DominatorTree::add_leaves(const EdgeLists& edges, const std::vector<bool>& is_leaf) {
  const auto reached = static_cast<std::uint32_t>(order_.size());
  number_.resize(edges.nodes());
  for (std::uint32_t i = 1; i < reached; ++i) {
    number_[order_[i]] = i;
    for (const std::uint32_t to : edges.of(order_[i])) {
      if (is_leaf[to]) add(to, i);
    }
  }
}

std::uint32_t DominatorTree::dominator_of(std::uint32_t node) const {
  return number_[node] == 0 ? kUnreachable : order_[dominator_[number_[node]]];
}

std::vector<std::uint64_t> DominatorTree::retained(std::span<const std::uint64_t> weights) const {
  std::vector<std::uint64_t> sums(number_.size());
  for (const std::uint32_t node : order()) sums[node] = weights[node];
  for (std::size_t i = order_.size() - 1; i > 0; --i) {
    if (dominator_[i] != 0) sums[order_[dominator_[i]]] += sums[order_[i]];
  }
  return sums;
}

}  // namespace memprofd
