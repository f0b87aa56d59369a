// SPDX-License-Identifier: Apache-2.0
// Selects the first items of an order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace memprofd {

// Sorts the items and keeps at most limit of them (0: all).
template <typename T, typename Less>
void sort_and_cut(std::vector<T>& items, std::size_t limit, Less less) {
  const std::size_t n = limit == 0 ? items.size() : std::min(limit, items.size());
  const auto end = items.begin() + static_cast<std::ptrdiff_t>(n);
  std::partial_sort(items.begin(), end, items.end(), less);
  items.erase(end, items.end());
}

}  // namespace memprofd
