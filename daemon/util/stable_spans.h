// SPDX-License-Identifier: Apache-2.0
// Sequences that never move, kept in large pieces. One thread at a time adds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace memprofd {

template <typename T>
class StableSpans {
 public:
  // A copy that lives as long as this.
  std::span<const T> keep(std::span<const T> items) {
    if (pieces_.empty() || pieces_.back().capacity() - pieces_.back().size() < items.size()) {
      pieces_.emplace_back().reserve(std::max(kPiece, items.size()));
    }
    std::vector<T>& piece = pieces_.back();
    const std::size_t first = piece.size();
    piece.insert(piece.end(), items.begin(), items.end());
    return std::span<const T>(piece).subspan(first);
  }

 private:
  static constexpr std::size_t kPiece = 4096;

  std::deque<std::vector<T>> pieces_;  // none grows beyond its capacity
};

}  // namespace memprofd
