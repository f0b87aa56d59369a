// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/contents_writer.h"

#include <algorithm>
#include <utility>

#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/file/heap_file_format.h"

namespace memprofd {

void ContentsWriter::add(std::uint64_t block, const BlockPart& part) {
  if (kept_ == HeapContents::kNone) return;
  const unsigned tag = tag_of(part.header);
  const bool is_string = tag == kStringTag;
  if (!is_string && !(has_contents() && tag == kFloatArrayTag)) return;
  if (part.first == 0) begin(part.words - 1, is_string);
  for (const std::uint64_t word : part.fields.first(std::min(words_left_, part.fields.size()))) {
    if (is_string) fingerprint_.add(word);
    if (has_contents() && kept_bytes_.size() < kMaxContentBytes) {
      kept_bytes_.append(reinterpret_cast<const char*>(&word), sizeof word);
    }
    last_word_ = word;
    --words_left_;
  }
  if (words_left_ == 0) end(block);
}

void ContentsWriter::add_buffer(std::uint64_t block, std::uint64_t used) {
  if (kept_ == HeapContents::kNone) return;
  put_block(buffers_, block, last_buffer_);
  buffers_.put(used);
}

void ContentsWriter::begin(std::uint64_t words, bool is_string) {
  fingerprint_ = Fingerprint(key_);
  is_string_ = is_string;
  words_ = words_left_ = words;
  kept_bytes_.clear();
}

void ContentsWriter::put_block(FileBytesWriter& out, std::uint64_t block, std::uint64_t& before) {
  if (out.size() == 0) before = 0;
  out.put(block - std::exchange(before, block));
}

// The last byte of a string is the number of padding bytes before it.
void ContentsWriter::end(std::uint64_t block) {
  std::uint64_t length = words_ * kWordBytes;
  if (is_string_ && length != 0) length -= std::min<std::uint64_t>(last_word_ >> 56, 7) + 1;
  kept_bytes_.resize(std::min<std::uint64_t>(kept_bytes_.size(), length));
  if (bytes_ + kept_bytes_.size() > kMaxTotalContentBytes) kept_bytes_.clear();
  const bool is_whole = has_contents() && kept_bytes_.size() == length;
  if (has_contents()) {
    put_block(contents_, block, last_contents_);
    contents_.put(length);
    contents_.put_text(kept_bytes_);
    bytes_ += kept_bytes_.size();
  }
  if (is_string_ && !is_whole) {
    put_block(fingerprints_, block, last_fingerprint_);
    fingerprints_.put_word(fingerprint_.end());
  }
}

}  // namespace memprofd
