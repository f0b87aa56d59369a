// SPDX-License-Identifier: Apache-2.0
// The trees of answers as lines: the largest first, small ones only counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/retained.h"
#include "daemon/snapshot/answers/why.h"

namespace memprofd {

struct TreeLine {
  std::uint32_t item = 0;   // row or step; of several, the one above them
  std::uint32_t depth = 0;  // of indentation
  // 0: a row of its own; otherwise stands for this number of omitted rows
  std::size_t more = 0;
  std::uint64_t more_words = 0;  // of rows, not of ways
  std::uint64_t more_outside_bytes = 0;
  std::string text = {};  // of ways: steps that nothing leaves or ends at are in one line
};

struct TreeLimits {
  std::size_t limit = 10;  // rows below each row; 0: all of them
  // Rows with a smaller share of what the first rows have together are left out, unless all are
  // wanted.
  double min_share = 0.01;
};

std::vector<TreeLine> retained_lines(const RetainedTable& table,
                                     const std::vector<std::uint32_t>& tops,
                                     const TreeLimits& limits);
std::vector<TreeLine> path_lines(const PathTree& tree, const TreeLimits& limits);

}  // namespace memprofd
