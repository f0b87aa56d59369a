// SPDX-License-Identifier: Apache-2.0
// The pieces of a heap file, one after the other. The file may be anybody's: whatever its bytes
// are, each call reads one piece at most, and only whole ones are answered with.
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
  // kInvalidArgument: no heap file, or of another version; else as of open_regular_file().
  static absl::StatusOr<PieceSource> open(const std::string& path);

  struct Piece {
    PieceKind kind;
    std::string_view payload;  // good until the next call
  };
  // Nothing: the file ends, or is damaged from here on.
  std::optional<Piece> next();
  // Position of the next piece; go_to() sets the position at which next() continues.
  std::uint64_t position() const { return at_; }
  void go_to(std::uint64_t position) { at_ = position; }

 private:
  explicit PieceSource(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
  std::uint64_t at_ = kHeapFileStartBytes;
  std::string bytes_;
};

}  // namespace memprofd
