// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/shortest_paths.h"

#include <algorithm>
#include <utility>

namespace memprofd {
namespace {

std::vector<ImageRoot> by_kind(const HeapImage& image) {
  std::vector<ImageRoot> roots = image.roots;
  std::stable_sort(roots.begin(), roots.end(), [&](const ImageRoot& a, const ImageRoot& b) {
    return image.root_names[a.name].kind < image.root_names[b.name].kind;
  });
  return roots;
}

}  // namespace

// Level by level: those that are as far from a root.
ShortestPaths::ShortestPaths(const HeapImage& image)
    : from_(image.blocks(), kUnreachable), blocks_(image.blocks()) {
  std::vector<std::uint32_t> level, next;
  const auto reach = [&](std::uint32_t block, std::uint32_t from) {
    if (from_[block] != kUnreachable) return;
    from_[block] = from;
    next.push_back(block);
  };
  for (const ImageRoot& root : by_kind(image)) reach(root.block, blocks_ + root.name);
  while (!next.empty()) {
    level.swap(next);
    next.clear();
    for (const std::uint32_t block : level) {
      for (const std::uint32_t held : image.edges.of(block)) reach(held, block);
    }
  }
}

// Each way that was gone is made one step long; then all are.
std::vector<std::uint32_t> ShortestPaths::nearest() {
  std::vector<std::uint32_t> way;
  for (std::uint32_t i = 0; i < blocks_; ++i) {
    if (!is_reachable(i)) continue;
    std::uint32_t block = i;
    for (; !begins_at(block); block = block_before(block)) way.push_back(block);
    for (; !way.empty(); way.pop_back()) from_[way.back()] = from_[block];
  }
  for (std::uint32_t i = 0; i < blocks_; ++i) {
    if (is_reachable(i)) from_[i] = root_name_at(i);
  }
  return std::move(from_);
}

}  // namespace memprofd
