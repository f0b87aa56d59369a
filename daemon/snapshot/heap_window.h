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
  // Larger pieces are slower: they fall out of the cache between the copy and the look.
  static constexpr std::size_t kWords = 64 << 10;

  explicit HeapWindow(const MemoryReader& memory) : memory_(memory), words_(kWords) {}

  // The words from address on, as many as there are at hand, at least `least`, which is at most
  // kWords. Reads no further than `end`, which is at least that far. The answer is good until the
  // next call. Errors are those of the memory.
  absl::StatusOr<std::span<const std::uint64_t>> at(std::uint64_t address, std::size_t least,
                                                    std::uint64_t end);

 private:
  const MemoryReader& memory_;
  std::vector<std::uint64_t> words_;
  std::uint64_t begin_ = 0;  // where words_ begins
  std::size_t filled_ = 0;
};

}  // namespace memprofd
