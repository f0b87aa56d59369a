// SPDX-License-Identifier: Apache-2.0
// Reads contents of blocks from a heap file, if they were requested when it was taken. Total.
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
  // One item of such a piece; false: it is damaged. block: of the item before, 0 at first.
  bool read(PieceKind kind, FileBytesReader& in, std::uint64_t& block);
  // When the blocks are known. What is of blocks that were cut off is dropped; false: some is of
  // blocks that cannot have it.
  bool match_blocks();

 private:
  bool read_contents(FileBytesReader& in, std::uint64_t& block);
  bool has_room(const BlockContents& of) const;

  HeapImage& image_;
};

}  // namespace memprofd
