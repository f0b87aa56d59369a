// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/dominators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace memprofd {
namespace {

using testing::ElementsAre;
using Edges = std::vector<std::vector<std::uint32_t>>;

EdgeLists lists(const Edges& edges) {
  EdgeLists result;
  for (const auto& of_node : edges) {
    result.first.push_back(result.to.size());
    result.to.insert(result.to.end(), of_node.begin(), of_node.end());
  }
  result.first.push_back(result.to.size());
  return result;
}

// Nodes that are still reachable without one node, by definition.
std::vector<bool> reached(const Edges& edges, const std::vector<std::uint32_t>& entries,
                          std::uint32_t without) {
  std::vector<bool> seen(edges.size());
  std::vector<std::uint32_t> todo;
  const auto reach = [&](std::uint32_t node) {
    if (node == without || seen[node]) return;
    seen[node] = true;
    todo.push_back(node);
  };
  for (const std::uint32_t entry : entries) reach(entry);
  while (!todo.empty()) {
    const std::uint32_t node = todo.back();
    todo.pop_back();
    for (const std::uint32_t to : edges[node]) reach(to);
  }
  return seen;
}

void expect_right(const Edges& edges, const std::vector<std::uint32_t>& entries) {
  const std::uint32_t nodes = static_cast<std::uint32_t>(edges.size());
  const DominatorTree tree(lists(edges), entries);
  std::vector<std::uint64_t> weights(nodes);
  for (std::uint32_t i = 0; i < nodes; ++i) weights[i] = 1 + i * 7 % 11;
  const auto retained = tree.retained(weights);
  const auto all = reached(edges, entries, DominatorTree::kRoot);
  std::uint64_t count = 0;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    ASSERT_EQ(all[node], tree.is_reachable(node));
    count += all[node] ? 1 : 0;
    const auto others = reached(edges, entries, node);
    std::uint64_t lost = 0;
    for (std::uint32_t i = 0; i < nodes; ++i) {
      const bool is_lost = all[i] && !others[i];
      lost += is_lost ? weights[i] : 0;
      bool is_dominated = i == node && all[node];
      for (std::uint32_t up = i; all[i] && up != DominatorTree::kRoot; up = tree.dominator_of(up)) {
        is_dominated = is_dominated || up == node;
      }
      ASSERT_EQ(is_lost, is_dominated) << node << " and " << i;
    }
    ASSERT_EQ(lost, retained[node]) << node;
  }
  ASSERT_EQ(count, tree.reachable());
}

TEST(Dominators, ANodeWithTwoWaysToItBelongsToNeither) {
  const DominatorTree tree(lists({{1, 2}, {3}, {3}, {}, {0}}), std::vector<std::uint32_t>{0});
  EXPECT_EQ(DominatorTree::kRoot, tree.dominator_of(0));
  EXPECT_EQ(0u, tree.dominator_of(1));
  EXPECT_EQ(0u, tree.dominator_of(3));
  EXPECT_EQ(DominatorTree::kUnreachable, tree.dominator_of(4));
  EXPECT_EQ(4u, tree.reachable());
  EXPECT_THAT(tree.retained(std::vector<std::uint64_t>{1, 10, 100, 1000, 10000}),
              ElementsAre(1111, 10, 100, 1000, 0));
}

TEST(Dominators, NodesReachedFromSeveralEntriesBelongToTheRoot) {
  const DominatorTree tree(lists({{2}, {2}, {0}}), std::vector<std::uint32_t>{0, 1, 1, 7});
  EXPECT_EQ(DominatorTree::kRoot, tree.dominator_of(0));
  EXPECT_EQ(DominatorTree::kRoot, tree.dominator_of(1));
  EXPECT_EQ(DominatorTree::kRoot, tree.dominator_of(2));
}

TEST(Dominators, OfNothing) {
  const DominatorTree empty(lists({}), {});
  EXPECT_EQ(0u, empty.reachable());
  const DominatorTree none(lists({{0}}), {});
  EXPECT_EQ(DominatorTree::kUnreachable, none.dominator_of(0));
}

TEST(Dominators, OfRandomGraphsAreThoseOfTheirDefinition) {
  std::mt19937 random(1);
  for (int round = 0; round < 3'000; ++round) {
    const std::uint32_t nodes = 1 + random() % 12;
    Edges edges(nodes);
    for (std::uint32_t i = random() % (2 * nodes + 1); i > 0; --i) {
      edges[random() % nodes].push_back(static_cast<std::uint32_t>(random() % nodes));
    }
    std::vector<std::uint32_t> entries;
    for (std::uint32_t i = random() % 4; i > 0; --i) {
      entries.push_back(static_cast<std::uint32_t>(random() % nodes));
    }
    ASSERT_NO_FATAL_FAILURE(expect_right(edges, entries)) << "round " << round;
  }
}

// Neither the search nor path compression recurses.
TEST(Dominators, OfALongListInBothDirections) {
  constexpr std::uint32_t kNodes = 1'000'000;
  EdgeLists edges;
  for (std::uint32_t i = 0; i < kNodes; ++i) {
    edges.first.push_back(edges.to.size());
    if (i + 1 < kNodes) edges.to.push_back(i + 1);
    if (i > 0) edges.to.push_back(i - 1);
  }
  edges.first.push_back(edges.to.size());
  const DominatorTree tree(edges, std::vector<std::uint32_t>{0});
  EXPECT_EQ(kNodes, tree.reachable());
  EXPECT_EQ(kNodes - 2, tree.dominator_of(kNodes - 1));
  EXPECT_EQ(kNodes - 5, tree.retained(std::vector<std::uint64_t>(kNodes, 1))[5]);
}

}  // namespace
}  // namespace memprofd
