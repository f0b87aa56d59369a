// SPDX-License-Identifier: Apache-2.0
// Memory as read over a socket: counts the requests and records the writes.
#pragma once

#include "daemon/discover/target_memory.h"

namespace memprofd {

class AskedMemory : public WritableMemory, public PieceReader, public PieceWriter {
 public:
  explicit AskedMemory(const MemoryReader& memory, const WritableMemory* written = nullptr)
      : memory_(memory), written_(written) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    ++times;
    return memory_.read(address, out);
  }
  absl::StatusOr<std::size_t> read_pieces(std::span<const MemoryPiece> pieces) const override {
    ++times;
    return memprofd::read_pieces(memory_, pieces);
  }
  absl::Status write(std::uint64_t address, std::span<const std::byte> bytes) const override {
    const WrittenPiece piece{address, bytes};
    return write_pieces(std::span(&piece, 1));
  }
  absl::Status write_pieces(std::span<const WrittenPiece> pieces) const override {
    ++times;
    if (written_ == nullptr) return absl::UnimplementedError("only read");
    for (const auto& [address, bytes] : pieces) {
      if (const absl::Status status = written_->write(address, bytes); !status.ok()) return status;
      written.push_back(address);
    }
    return absl::OkStatus();
  }
  mutable int times = 0;
  mutable std::vector<std::uint64_t> written;

 private:
  const MemoryReader& memory_;
  const WritableMemory* written_;
};

}  // namespace memprofd
