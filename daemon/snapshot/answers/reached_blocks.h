// SPDX-License-Identifier: Apache-2.0
// Blocks that can be reached from some blocks, these included, each once: everything that a root
// keeps alive, even if others do too.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/snapshot/heap_image.h"

namespace memprofd {

class ReachedBlocks {
 public:
  // image must outlive this. Allocates a bit for each of its blocks.
  explicit ReachedBlocks(const HeapImage& image) : image_(image), met_(image.blocks()) {}

  // block must be a block of the image.
  void add(std::uint32_t block);
  std::uint64_t blocks() const { return reached_.size(); }
  std::uint64_t words() const { return words_; }
  // Resets, in time proportional to the number of reached blocks.
  void clear();

 private:
  void meet(std::uint32_t block);

  const HeapImage& image_;
  std::vector<bool> met_;
  std::vector<std::uint32_t> reached_;
  std::uint64_t words_ = 0;
};

}  // namespace memprofd
