// SPDX-License-Identifier: Apache-2.0
// A heap read from its lowest to its highest address, in pieces that stay in the processor's cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

class HeapWindow {
 public:
  // Larger pieces are slower, because they leave the cache between being copied and being read.
  static constexpr std::size_t kWords = MemoryViewer::kMaxViewBytes / sizeof(std::uint64_t);

  explicit HeapWindow(const MemoryReader& memory);

  // The words from address on: all that are available, at least `least`, which must be at most
  // kWords. Reads no further than `end`, which must be at least that far. Valid until the next
  // call. Returns the errors of the memory.
  absl::StatusOr<std::span<const std::uint64_t>> at(std::uint64_t address, std::size_t least,
                                                    std::uint64_t end);

 private:
  absl::Status map_view(std::uint64_t address, std::uint64_t wanted);
  absl::Status fill(std::uint64_t address, std::uint64_t wanted);

  const MemoryReader& memory_;
  const MemoryViewer* const viewer_;  // the same memory, if it supports views
  std::vector<std::uint64_t> own_;    // buffer for a memory without views
  std::span<const std::uint64_t> words_;
  std::uint64_t begin_ = 0;  // address at which words_ begins
};

}  // namespace memprofd
