// SPDX-License-Identifier: Apache-2.0
// Helpers for the heap tables: they make cells and ranges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/sql/sql_table.h"

namespace memprofd {

inline SqlCell number(std::uint64_t value) { return static_cast<std::int64_t>(value); }
inline SqlCell text_or_null(const std::string& text) {
  if (text.empty()) return {};
  return std::string_view(text);
}
inline SqlCell line_or_null(std::uint32_t line) { return line == 0 ? SqlCell{} : number(line); }

// The rows of one block, among rows ordered by block.
template <typename Row>
SqlRows rows_of_block(const std::vector<Row>& rows, std::int64_t key) {
  if (key < 0 || key >= HeapImage::kNoBlock) return {};
  const auto block = static_cast<std::uint32_t>(key);
  const auto [first, end] = std::ranges::equal_range(rows, block, {}, &Row::block);
  return {static_cast<std::uint64_t>(first - rows.begin()),
          static_cast<std::uint64_t>(end - rows.begin())};
}

}  // namespace memprofd
