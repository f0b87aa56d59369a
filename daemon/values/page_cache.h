// SPDX-License-Identifier: Apache-2.0
// Memory of a program, each page of it read once, so that what lies together costs one read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

class PageCache final : public MemoryReader {
 public:
  // Pages kept at most; further ones cannot be read until forget().
  static constexpr std::size_t kMaxPages = 4096;

  // memory outlives it.
  explicit PageCache(const MemoryReader& memory) : memory_(memory) {}

  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override;
  // What is read from now on is of a later moment.
  void forget() { pages_.clear(); }
  bool full() const { return pages_.size() >= kMaxPages; }

 private:
  static constexpr std::uint64_t kPageBytes = 4096;
  using Page = std::array<std::byte, kPageBytes>;

  // Null: it cannot be read.
  const Page* page_at(std::uint64_t begin) const;

  const MemoryReader& memory_;
  mutable absl::flat_hash_map<std::uint64_t, std::unique_ptr<Page>> pages_;  // null: unreadable
};

}  // namespace memprofd
