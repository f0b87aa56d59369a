// SPDX-License-Identifier: Apache-2.0
// Reads the parts of a heap file that describe no single block: its head, names, shapes and counts.
// Safe for any input: a name that is used before its definition is refused.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/file/block_stream.h"
#include "daemon/snapshot/file/file_bytes.h"
#include "daemon/snapshot/file/heap_file_format.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

class ImageTables {
 public:
  // Fills in the image, which outlives it.
  explicit ImageTables(HeapImage& image) : image_(image) {}

  static bool is_of(PieceKind kind);
  // Reads one item of such a piece; returns false if it is damaged, or the piece is of another
  // kind.
  bool read(PieceKind kind, FileBytesReader& in);
  bool has_head() const { return has_head_; }
  const std::vector<FileShape>& shapes() const { return shapes_; }

 private:
  bool read_head(FileBytesReader& in);
  bool read_text(FileBytesReader& in);
  bool read_location(FileBytesReader& in);
  bool read_name(FileBytesReader& in);
  bool read_site(FileBytesReader& in);
  bool read_shape(FileBytesReader& in);
  bool read_count(FileBytesReader& in);
  bool read_interface(FileBytesReader& in);
  bool read_assertion(FileBytesReader& in);
  bool is_text(std::uint64_t number) const { return number < image_.texts.size(); }
  bool note_copied(const Location& place);

  HeapImage& image_;
  bool has_head_ = false;
  std::uint64_t copied_bytes_ = 0;
  std::vector<FileShape> shapes_;
  std::uint32_t guesses_ = 0;  // total number for all shapes
  absl::flat_hash_map<
      std::tuple<std::uint8_t, std::uint32_t, std::uint64_t, std::uint32_t, std::uint64_t>,
      std::uint32_t>
      image_shapes_;
};

}  // namespace memprofd
