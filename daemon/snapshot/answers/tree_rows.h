// SPDX-License-Identifier: Apache-2.0
// Formats the trees of answers as lines: the largest first, small ones only counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/retained.h"
#include "daemon/snapshot/answers/why.h"

namespace memprofd {

struct TreeLine {
  std::uint32_t item = 0;   // row or step; if the line stands for several, their parent
  std::uint32_t depth = 0;  // indentation
  // 0: a row of its own; otherwise stands for this number of omitted rows
  std::size_t more = 0;
  std::uint64_t more_words = 0;  // for rows, not for paths
  std::uint64_t more_outside_bytes = 0;
  std::string text = {};  // for paths: steps at which nothing branches or ends share one line
};

struct TreeLimits {
  std::size_t limit = 10;  // rows below each row; 0: all
  // Omits rows whose share of the first rows' total is smaller, unless all rows are requested.
  double min_share = 0.01;
};

std::vector<TreeLine> retained_lines(const RetainedTable& table,
                                     const std::vector<std::uint32_t>& tops,
                                     const TreeLimits& limits);
std::vector<TreeLine> path_lines(const PathTree& tree, const TreeLimits& limits);

}  // namespace memprofd
