// SPDX-License-Identifier: Apache-2.0
// HeapFileWriter: contents of blocks, if they were requested.
#include "daemon/snapshot/file/heap_file_writer.h"

namespace memprofd {

void HeapFileWriter::flush_contents(std::size_t least) {
  const auto flush = [&](PieceKind kind, FileBytesWriter& bytes) {
    if (bytes.size() < least) return;
    put_piece(kind, bytes.bytes());
    bytes.clear();
  };
  flush(PieceKind::kContents, contents_.contents());
  flush(PieceKind::kFingerprints, contents_.fingerprints());
  flush(PieceKind::kBuffers, contents_.buffers());
}

}  // namespace memprofd
