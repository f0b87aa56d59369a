// SPDX-License-Identifier: Apache-2.0
// The trees of answers as lines: the largest first, small ones only counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/retained.h"
#include "daemon/snapshot/answers/why.h"

namespace memprofd::ctl {

struct TreeLine {
  std::uint32_t item = 0;   // row or step; of several, the one above them
  std::uint32_t depth = 0;  // of indentation
  std::size_t more = 0;     // 0: a line of its own; else stands for so many that are left out
  std::uint64_t more_words = 0;
  std::string text = {};  // of ways: steps that nothing leaves or ends at are in one line
};

// limit: below each row, 0: all of them. Otherwise rows with a smaller share of what the first rows
// have together are left out.
std::vector<TreeLine> retained_lines(const RetainedTable& table,
                                     const std::vector<std::uint32_t>& tops, std::size_t limit,
                                     double min_share);
std::vector<TreeLine> path_lines(const PathTree& tree, std::size_t limit, double min_share);
// "Cache.add cache.ml:41", "3 sites, Cache.add cache.ml:41 and others".
std::string sites_title(const Why& why);

}  // namespace memprofd::ctl
