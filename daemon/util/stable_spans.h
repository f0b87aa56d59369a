// SPDX-License-Identifier: Apache-2.0
// Sequences that never move in memory, stored in large pieces. Only one thread at a time may add.
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
  // Stores a copy that lives as long as this object.
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

  std::deque<std::vector<T>> pieces_;  // no piece grows beyond its capacity
};

}  // namespace memprofd
