// SPDX-License-Identifier: Apache-2.0
// Reads heap files for questions that need no blocks.
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/file/file_bytes.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/snapshot/file/image_tables.h"
#include "daemon/snapshot/file/piece_source.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

bool read_piece(const PieceSource::Piece& piece, ImageTables& tables) {
  FileBytesReader in(piece.payload);
  while (!in.done()) {
    if (!tables.read(piece.kind, in)) return false;
  }
  return in.ok();
}

absl::Status no_beginning(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is truncated or damaged at its beginning"));
}

}  // namespace

absl::StatusOr<ImageInfo> read_heap_info(const std::string& path) {
  ASSIGN_OR_RETURN(PieceSource source, PieceSource::open(path));
  const auto piece = source.next();
  HeapImage image;
  ImageTables tables(image);
  if (piece && piece->kind == PieceKind::kHead && read_piece(*piece, tables)) {
    return std::move(image.info);
  }
  return no_beginning(path);
}

absl::StatusOr<HeapImage> read_heap_tables(const std::string& path) {
  ASSIGN_OR_RETURN(PieceSource source, PieceSource::open(path));
  HeapImage image;
  image.edges.first.push_back(0);
  ImageTables tables(image);
  image.info.complete = false;
  for (;;) {
    const std::uint64_t begin = source.position();
    const auto piece = source.next();
    if (!piece) break;
    const bool is_head = piece->kind == PieceKind::kHead;
    if (image.info.complete || tables.has_head() == is_head ||
        (ImageTables::is_of(piece->kind) && !read_piece(*piece, tables))) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is damaged at byte ", begin));
    }
    image.info.complete = piece->kind == PieceKind::kEnd;
  }
  if (!tables.has_head()) return no_beginning(path);
  return image;
}

}  // namespace memprofd
