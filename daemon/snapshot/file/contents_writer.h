// SPDX-License-Identifier: Apache-2.0
// Writes the contents of strings and float arrays, if requested: their bytes, or fingerprints of
// strings with a secret key, which show only whether two strings are equal.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/model/control.h"
#include "daemon/snapshot/file/file_bytes.h"
#include "daemon/snapshot/file/fingerprint.h"
#include "daemon/snapshot/heap_walk.h"

namespace memprofd {

class ContentsWriter {
 public:
  ContentsWriter() = default;  // keeps nothing
  ContentsWriter(HeapContents kept, const Fingerprint::Key& key) : kept_(kept), key_(key) {}

  bool keeps_nothing() const { return kept_ == HeapContents::kNone; }
  // Adds a part of a block in use, as a walk (kWholeContents) delivers it. block: its number in the
  // file.
  void add(std::uint64_t block, const BlockPart& part);
  void add_buffer(std::uint64_t block, std::uint64_t used);

  // Items of kContents, kFingerprints and kBuffers; the first block number in each counts from 0.
  FileBytesWriter& contents() { return contents_; }
  FileBytesWriter& fingerprints() { return fingerprints_; }
  FileBytesWriter& buffers() { return buffers_; }

 private:
  bool has_contents() const { return kept_ == HeapContents::kContents; }
  void begin(std::uint64_t words, bool is_string);
  void end(std::uint64_t block);
  static void put_block(FileBytesWriter& out, std::uint64_t block, std::uint64_t& before);

  HeapContents kept_ = HeapContents::kNone;
  Fingerprint::Key key_{};
  FileBytesWriter contents_;
  FileBytesWriter fingerprints_;
  FileBytesWriter buffers_;
  std::uint64_t last_contents_ = 0;
  std::uint64_t last_fingerprint_ = 0;
  std::uint64_t last_buffer_ = 0;
  std::uint64_t bytes_ = 0;  // total size of contents

  // Buffers for the current block.
  Fingerprint fingerprint_{key_};
  bool is_string_ = false;
  std::uint64_t words_left_ = 0;
  std::uint64_t words_ = 0;
  std::uint64_t last_word_ = 0;
  std::string kept_bytes_;
};

}  // namespace memprofd
