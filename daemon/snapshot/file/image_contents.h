// SPDX-License-Identifier: Apache-2.0
// Reads the contents of blocks from a heap file, if they were requested when it was taken. Safe for
// any input.
#pragma once

#include <cstdint>

#include "daemon/snapshot/file/file_bytes.h"
#include "daemon/snapshot/file/heap_file_format.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

class ImageContents {
 public:
  // Fills in the image, which outlives it.
  explicit ImageContents(HeapImage& image) : image_(image) {}

  static constexpr bool is_of(PieceKind kind) {
    return kind == PieceKind::kContents || kind == PieceKind::kFingerprints ||
           kind == PieceKind::kBuffers;
  }
  // Reads one item of such a piece; returns false if it is damaged. block: number of the previous
  // item's block, 0 at first.
  bool read(PieceKind kind, FileBytesReader& in, std::uint64_t& block);
  // Call it when the blocks are known. Drops contents of truncated blocks; returns false if a block
  // cannot have its contents.
  bool match_blocks();

 private:
  bool read_contents(FileBytesReader& in, std::uint64_t& block);
  bool has_room(const BlockContents& of) const;

  HeapImage& image_;
};

}  // namespace memprofd
