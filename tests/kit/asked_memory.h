// SPDX-License-Identifier: Apache-2.0
// Memory that is asked for over a socket: counts the questions.
#pragma once

#include "daemon/discover/target_memory.h"

namespace memprofd {

class AskedMemory : public WritableMemory, public PieceReader {
 public:
  explicit AskedMemory(const MemoryReader& memory) : memory_(memory) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    ++times;
    return memory_.read(address, out);
  }
  absl::StatusOr<std::size_t> read_pieces(std::span<const MemoryPiece> pieces) const override {
    ++times;
    return memprofd::read_pieces(memory_, pieces);
  }
  absl::Status write(std::uint64_t, std::span<const std::byte>) const override {
    return absl::UnimplementedError("only read");
  }
  mutable int times = 0;

 private:
  const MemoryReader& memory_;
};

}  // namespace memprofd
