// SPDX-License-Identifier: Apache-2.0
// A program's memory as far as it is resident. A page that was never touched is not read, as that
// would map one there; nor is one that is swapped out, as that would bring it back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/rss/page_map.h"

namespace memprofd {

// Keeps the last piece that was read, so that a walk from low to high addresses asks seldom. For
// one thread.
class ResidentReader final : public MemoryReader {
 public:
  // Both must outlive this.
  ResidentReader(const MemoryReader& memory, const PageMap& pages)
      : memory_(memory), pages_(pages) {}

  // kUnavailable when a page of it is not resident, else as of the memory.
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;

  // Calls it a program that has gone, or does not answer: nothing more can be read.
  const absl::Status& broken() const { return broken_; }

 private:
  bool holds(std::uint64_t address, std::size_t bytes) const {
    return address >= begin_ && bytes <= piece_.size() && address - begin_ <= piece_.size() - bytes;
  }
  absl::Status fill(std::uint64_t address, std::size_t bytes) const;

  const MemoryReader& memory_;
  const PageMap& pages_;
  mutable std::uint64_t begin_ = 0;
  mutable std::vector<std::byte> piece_;
  mutable absl::Status broken_;
};

}  // namespace memprofd
