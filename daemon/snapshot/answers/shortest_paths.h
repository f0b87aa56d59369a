// SPDX-License-Identifier: Apache-2.0
// Finds the reachable part of a heap, and the shortest path to each block from a root. Of roots at
// the same distance, the one whose kind comes first in RootKind wins.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/snapshot/heap_image.h"

namespace memprofd {

class ShortestPaths {
 public:
  static constexpr std::uint32_t kUnreachable = ~0u;

  // Takes 4 bytes per block, and a few more during construction. image must outlive this.
  explicit ShortestPaths(const HeapImage& image);

  bool is_reachable(std::uint32_t block) const { return from_[block] != kUnreachable; }
  // True if a root, not a block, points to the reachable block on this path.
  bool begins_at(std::uint32_t block) const { return from_[block] >= blocks_; }
  // The name, in root_names, at which the path begins.
  std::uint32_t root_name_at(std::uint32_t block) const { return from_[block] - blocks_; }
  std::uint32_t block_before(std::uint32_t block) const { return from_[block]; }
  // For each block the name at which its path begins, or kUnreachable.
  std::vector<std::uint32_t> nearest_roots() const& { return ShortestPaths(*this).nearest(); }
  std::vector<std::uint32_t> nearest_roots() && { return nearest(); }

 private:
  // Replaces the paths in place.
  std::vector<std::uint32_t> nearest();

  // The previous block on the path; values from blocks_ on are numbers of root names.
  std::vector<std::uint32_t> from_;
  std::uint32_t blocks_;
};

}  // namespace memprofd
