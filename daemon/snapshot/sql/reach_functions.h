// SPDX-License-Identifier: Apache-2.0
// reachable_blocks(block) and reachable_bytes(block): aggregates over everything that the blocks of
// a group reach.
#pragma once

#include <memory>
#include <vector>

#include "daemon/snapshot/answers/reached_blocks.h"

struct sqlite3;

namespace memprofd {

// Reusable sets of blocks: a query may have a group for each root.
class ReachSets {
 public:
  // image must outlive this.
  explicit ReachSets(const HeapImage& image) : image_(image) {}

  const HeapImage& image() const { return image_; }
  std::unique_ptr<ReachedBlocks> take();
  void give_back(std::unique_ptr<ReachedBlocks> set);

 private:
  const HeapImage& image_;
  std::vector<std::unique_ptr<ReachedBlocks>> free_;
};

// The sets must outlive the connection.
void add_reach_functions(sqlite3* connection, ReachSets& sets);

}  // namespace memprofd
