// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/reached_blocks.h"

namespace memprofd {

void ReachedBlocks::add(std::uint32_t block) {
  std::size_t next = reached_.size();
  meet(block);
  for (; next < reached_.size(); ++next) {
    for (const std::uint32_t target : image_.edges.of(reached_[next])) meet(target);
  }
}

void ReachedBlocks::meet(std::uint32_t block) {
  if (met_[block]) return;
  met_[block] = true;
  words_ += image_.shape(block).words;
  reached_.push_back(block);
}

void ReachedBlocks::clear() {
  for (const std::uint32_t block : reached_) met_[block] = false;
  reached_.clear();
  words_ = 0;
}

}  // namespace memprofd
