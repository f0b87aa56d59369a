// SPDX-License-Identifier: Apache-2.0
// Reads the pieces of a heap file one after the other. The file is not trusted: each call reads at
// most one piece, and returns only whole ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/snapshot/file/heap_file_format.h"
#include "daemon/util/fd.h"

namespace memprofd {

class PieceSource {
 public:
  // kInvalidArgument: not a heap file, or one of another version; otherwise as for
  // open_regular_file().
  static absl::StatusOr<PieceSource> open(const std::string& path);

  struct Piece {
    PieceKind kind;
    std::string_view payload;  // valid until the next call
  };
  // Returns nothing at the end of the file, or if it is damaged from here on.
  std::optional<Piece> next();
  // Position of the next piece; go_to() sets it.
  std::uint64_t position() const { return at_; }
  void go_to(std::uint64_t position) { at_ = position; }

 private:
  explicit PieceSource(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
  std::uint64_t at_ = kHeapFileStartBytes;
  std::string bytes_;
};

}  // namespace memprofd
