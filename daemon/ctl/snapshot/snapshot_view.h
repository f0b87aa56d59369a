// SPDX-License-Identifier: Apache-2.0
// The shown part of an answer about a heap snapshot, and the texts of its tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/ctl/render/render_table.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/snapshot/answers/tree_rows.h"

namespace memprofd::ctl {

inline constexpr std::size_t kShownRows = 10;  // unless --limit is given

struct HeapDumpView {
  std::size_t limit = kShownRows;  // rows of a table, or below one row; 0: all
  double min_share = 0.01;         // of rows of trees; all are shown when limit is 0
  Style style;

  TreeLimits tree() const { return {.limit = limit, .min_share = min_share}; }
};

std::string size_text(std::uint64_t bytes);
std::string share_of(std::uint64_t part, std::uint64_t whole);
// Puts an empty line and the title before the table.
std::string with_title(const std::string& title, const TextTable& table, const Style& style);
// Number of rows to show.
int shown(int rows, const HeapDumpView& view);
// A line about the rows that are not shown, if there are any.
std::string more_text(int rows, const HeapDumpView& view);

}  // namespace memprofd::ctl
