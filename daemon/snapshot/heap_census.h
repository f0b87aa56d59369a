// SPDX-License-Identifier: Apache-2.0
// Counts blocks during a walk: the numbers of Gc.stat, blocks by tag and size, and a check against
// the runtime's own counts.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/snapshot/heap_map.h"
#include "daemon/snapshot/heap_walk.h"
#include "daemon/snapshot/size_table.h"

namespace memprofd {

struct BlockCount {
  std::uint64_t blocks = 0;
  std::uint64_t words = 0;  // including headers; for free slots the whole slot

  void add(const BlockCount& other) {
    blocks += other.blocks;
    words += other.words;
  }
  friend bool operator==(const BlockCount&, const BlockCount&) = default;
};

// The visitor of a walk.
class HeapCensus {
 public:
  void operator()(const HeapRegion& region, const BlockPart& part) {
    if (part.first != 0) return;
    BlockCount& count = counts_[static_cast<int>(region.kind)][static_cast<int>(part.state)];
    ++count.blocks;
    count.words += part.words;
    if (part.state == BlockState::kUsed) {
      used_.add(tag_of(part.header), fields_of(part.header));
    } else if (part.state == BlockState::kDead) {
      dead_.add(tag_of(part.header), fields_of(part.header));
    } else if (part.state == BlockState::kFree) {
      note_free(part.words);
    }
  }

  BlockCount count(RegionKind kind, BlockState state) const {
    return counts_[static_cast<int>(kind)][static_cast<int>(state)];
  }
  // The major heap.
  BlockCount major(BlockState state) const;
  BlockCount minor() const { return count(RegionKind::kMinor, BlockState::kUsed); }
  std::uint64_t largest_free_words() const { return largest_free_words_; }

  // Blocks of all heaps, including minor ones.
  const SizeTable& used() const { return used_; }
  const SizeTable& dead() const { return dead_; }
  // Free blocks and slots by words, including headers, all under tag 0.
  const SizeTable& free() const { return free_; }

  // Compares with the runtime's counts. kDataLoss, in one line: they differ, so the layout must be
  // wrong.
  absl::Status check(const HeapMap& map) const;

 private:
  static constexpr int kKinds = 4;

  void note_free(std::uint64_t words) {
    free_.add(0, words);
    if (words > largest_free_words_) largest_free_words_ = words;
  }

  std::array<std::array<BlockCount, kBlockStates>, kKinds> counts_{};
  std::uint64_t largest_free_words_ = 0;
  SizeTable used_, dead_, free_;
};

}  // namespace memprofd
