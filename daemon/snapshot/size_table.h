// SPDX-License-Identifier: Apache-2.0
// Counts blocks by tag and size.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace memprofd {

struct SizeRow {
  unsigned tag = 0;
  std::uint64_t fields = 0;  // words without the header
  std::uint64_t blocks = 0;

  friend bool operator==(const SizeRow&, const SizeRow&) = default;
};

// Exact. Its size is bounded by the counted heap: n rows of one tag require n²/2 words.
class SizeTable {
 public:
  void add(unsigned tag, std::uint64_t fields, std::uint64_t blocks = 1) {
    if (fields < kFlatFields) {
      flat_[tag * kFlatFields + fields] += blocks;
    } else {
      others_[fields << 8 | tag] += blocks;
    }
  }

  std::uint64_t blocks(unsigned tag, std::uint64_t fields) const;
  std::vector<SizeRow> rows() const;  // by tag, then size

 private:
  static constexpr std::uint64_t kFlatFields = 32;
  static constexpr unsigned kTags = 256;

  std::vector<std::uint64_t> flat_ = std::vector<std::uint64_t>(kTags * kFlatFields);
  absl::flat_hash_map<std::uint64_t, std::uint64_t> others_;  // by size and tag
};

}  // namespace memprofd
