// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/shortest_paths.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace memprofd {
namespace {

constexpr std::size_t kAhead = 8;

std::span<const std::uint32_t> first_ones(std::span<const std::uint32_t> all) {
  return all.first(std::min(all.size(), kAhead));
}

std::vector<ImageRoot> by_kind(const HeapImage& image) {
  std::vector<ImageRoot> roots = image.roots;
  std::stable_sort(roots.begin(), roots.end(), [&](const ImageRoot& a, const ImageRoot& b) {
    return image.root_names[a.name].kind < image.root_names[b.name].kind;
  });
  return roots;
}

}  // namespace

// Searches level by level; a level is all blocks of the same distance from a root.
ShortestPaths::ShortestPaths(const HeapImage& image)
    : from_(image.blocks(), kUnreachable), blocks_(image.blocks()) {
  std::vector<std::uint32_t> level, next;
  const auto reach = [&](std::uint32_t block, std::uint32_t from) {
    if (from_[block] != kUnreachable) return;
    from_[block] = from;
    next.push_back(block);
  };
  for (const ImageRoot& root : by_kind(image)) reach(root.block, blocks_ + root.name);
  // Blocks come in no order, and waiting for memory is most of the work. So the targets of the next
  // ones are prefetched, step by step.
  const auto prefetch = [&](const std::vector<std::uint32_t>& blocks, std::size_t i) {
    if (i + 3 * kAhead < blocks.size()) image.edges.first.prefetch(blocks[i + 3 * kAhead]);
    if (i + 2 * kAhead < blocks.size()) {
      __builtin_prefetch(image.edges.to.data() + image.edges.first[blocks[i + 2 * kAhead]]);
    }
    if (i + kAhead >= blocks.size()) return;
    for (const std::uint32_t held : first_ones(image.edges.of(blocks[i + kAhead]))) {
      __builtin_prefetch(&from_[held]);
    }
  };
  while (!next.empty()) {
    level.swap(next);
    next.clear();
    for (std::size_t i = 0; i < level.size(); ++i) {
      prefetch(level, i);
      for (const std::uint32_t held : image.edges.of(level[i])) reach(held, level[i]);
    }
  }
}

// Shortens each followed path to one step, so that no block is followed twice.
std::vector<std::uint32_t> ShortestPaths::nearest() {
  std::vector<std::uint32_t> root_path;
  for (std::uint32_t i = 0; i < blocks_; ++i) {
    if (!is_reachable(i)) continue;
    std::uint32_t block = i;
    for (; !begins_at(block); block = block_before(block)) root_path.push_back(block);
    for (; !root_path.empty(); root_path.pop_back()) from_[root_path.back()] = from_[block];
  }
  for (std::uint32_t i = 0; i < blocks_; ++i) {
    if (is_reachable(i)) from_[i] = root_name_at(i);
  }
  return std::move(from_);
}

}  // namespace memprofd
