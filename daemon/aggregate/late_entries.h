// SPDX-License-Identifier: Apache-2.0
// Blocks that were observed only from some age on, because they already existed when a range began.
// Until then their death could not be observed, so they are not at risk (delayed entry, or left
// truncation). By bucket of LifetimeHistogram.
//
//   bucket        |-----3-----|-----4-----|-----5-----|
//   a block       . . . . . . . . . ######|######X          enters in 4, dies in 5
//   entered                       1 in 4:    not at risk in 3 and before
//   missed                      0.6 of 4:    at risk for 0.4 of it
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace memprofd {

// Words of some blocks, and the sum of the squared words per block.
struct BlockWords {
  double words = 0;
  double squares = 0;

  BlockWords& operator+=(const BlockWords& other) {
    words += other.words;
    squares += other.squares;
    return *this;
  }
  friend BlockWords operator*(double share, const BlockWords& all) {
    return {share * all.words, share * all.squares};
  }
};

class LateEntries {
 public:
  struct Entry {
    int bucket = 0;
    BlockWords entered;  // blocks whose observation began at an age in the bucket
    BlockWords missed;   // the same, each weighted by the unobserved share of the bucket
  };

  void add(const Entry& added) {
    const auto at =
        std::lower_bound(entries_.begin(), entries_.end(), added.bucket,
                         [](const Entry& entry, int bucket) { return entry.bucket < bucket; });
    if (at == entries_.end() || at->bucket != added.bucket) {
      entries_.insert(at, added);
      return;
    }
    at->entered += added.entered;
    at->missed += added.missed;
  }
  LateEntries& operator+=(const LateEntries& other) {
    for (const Entry& entry : other.entries_) add(entry);
    return *this;
  }

  bool empty() const { return entries_.empty(); }
  // Ordered by bucket; unique.
  std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace memprofd
