// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/dominators.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace memprofd {
namespace {

// Where nodes are reached from, by number.
EdgeLists predecessors(const EdgeLists& edges, std::span<const std::uint32_t> number,
                       std::span<const std::uint32_t> order) {
  EdgeLists back;
  back.first.resize(order.size() + 1);
  const auto each_edge = [&](auto visit) {
    for (std::uint32_t from = 1; from < order.size(); ++from) {
      for (const std::uint32_t to : edges.of(order[from])) visit(from, number[to]);
    }
  };
  each_edge([&](std::uint32_t, std::uint32_t to) { ++back.first[to + 1]; });
  std::partial_sum(back.first.begin(), back.first.end(), back.first.begin());
  back.to.resize(back.first.back());
  std::vector<std::uint64_t> next(back.first.begin(), back.first.end() - 1);
  each_edge([&](std::uint32_t from, std::uint32_t to) { back.to[next[to]++] = from; });
  return back;
}

// The forest of nodes whose semi-dominators are known: asked for the node with the least one on
// the way up. What is asked is compressed.
class Forest {
 public:
  Forest(std::vector<std::uint32_t> parents, const std::vector<std::uint32_t>& semi)
      : ancestor_(std::move(parents)), label_(ancestor_.size()), semi_(semi) {
    std::iota(label_.begin(), label_.end(), 0);
  }

  // Nodes from `linked` on are in the forest.
  std::uint32_t least_above(std::uint32_t node, std::uint32_t linked) {
    if (ancestor_[node] < linked) return label_[node];
    for (; ancestor_[node] >= linked; node = ancestor_[node]) way_.push_back(node);
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
  std::vector<std::uint32_t> ancestor_;
  std::vector<std::uint32_t> label_;
  const std::vector<std::uint32_t>& semi_;
  std::vector<std::uint32_t> way_;
};

}  // namespace

DominatorTree::DominatorTree(const EdgeLists& edges, std::span<const std::uint32_t> entries)
    : number_(edges.nodes()), order_(1, kRoot), dominator_(1, 0) {
  search(edges, entries);
  find_semidominators(edges, entries);
  find_dominators();
}

void DominatorTree::search(const EdgeLists& edges, std::span<const std::uint32_t> entries) {
  struct Step {
    std::uint32_t number;
    std::uint64_t next_edge;
  };
  std::vector<Step> way;
  const auto reach = [&](std::uint32_t node, std::uint32_t from) {
    if (number_[node] != 0) return;
    number_[node] = static_cast<std::uint32_t>(order_.size());
    order_.push_back(node);
    dominator_.push_back(from);
    way.push_back({number_[node], edges.first[node]});
  };
  for (const std::uint32_t entry : entries) {
    if (entry >= edges.nodes()) continue;
    reach(entry, 0);
    while (!way.empty()) {
      Step& step = way.back();
      if (step.next_edge == edges.first[order_[step.number] + 1]) {
        way.pop_back();
      } else {
        reach(edges.to[step.next_edge++], step.number);
      }
    }
  }
}

void DominatorTree::find_semidominators(const EdgeLists& edges,
                                        std::span<const std::uint32_t> entries) {
  const EdgeLists back = predecessors(edges, number_, order_);
  std::vector<bool> is_entry(order_.size());
  for (const std::uint32_t entry : entries) {
    if (entry < edges.nodes()) is_entry[number_[entry]] = true;
  }
  semi_.resize(order_.size());
  std::iota(semi_.begin(), semi_.end(), 0);
  Forest forest(dominator_, semi_);
  for (std::uint32_t i = static_cast<std::uint32_t>(order_.size()) - 1; i > 0; --i) {
    std::uint32_t least = is_entry[i] ? 0 : dominator_[i];
    for (const std::uint32_t from : back.of(i)) {
      least = std::min(least, semi_[forest.least_above(from, i + 1)]);
    }
    semi_[i] = least;
  }
}

// The nearest ancestor in the search that is not behind the semi-dominator.
void DominatorTree::find_dominators() {
  for (std::uint32_t i = 1; i < order_.size(); ++i) {
    std::uint32_t dominator = dominator_[i];
    while (dominator > semi_[i]) dominator = dominator_[dominator];
    dominator_[i] = dominator;
  }
  std::vector<std::uint32_t>().swap(semi_);
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
