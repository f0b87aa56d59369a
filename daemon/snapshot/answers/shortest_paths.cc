// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/shortest_paths.h"

#include <algorithm>

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

ShortestPaths::ShortestPaths(const HeapImage& image)
    : from_(image.blocks(), kUnreachable), blocks_(image.blocks()) {
  std::vector<std::uint32_t> queue;
  const auto reach = [&](std::uint32_t block, std::uint32_t from) {
    if (from_[block] != kUnreachable) return;
    from_[block] = from;
    queue.push_back(block);
  };
  for (const ImageRoot& root : by_kind(image)) reach(root.block, blocks_ + root.name);
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const std::uint32_t block = queue[next];
    for (const std::uint32_t held : image.edges.of(block)) reach(held, block);
  }
}

std::vector<std::uint32_t> ShortestPaths::nearest_roots() const {
  std::vector<std::uint32_t> roots(blocks_, kUnreachable);
  std::vector<std::uint32_t> way;
  for (std::uint32_t i = 0; i < blocks_; ++i) {
    if (!is_reachable(i)) continue;
    std::uint32_t block = i;
    for (; roots[block] == kUnreachable && !begins_at(block); block = block_before(block)) {
      way.push_back(block);
    }
    if (roots[block] == kUnreachable) roots[block] = root_name_at(block);
    for (; !way.empty(); way.pop_back()) roots[way.back()] = roots[block];
  }
  return roots;
}

}  // namespace memprofd
