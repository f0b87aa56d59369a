// SPDX-License-Identifier: Apache-2.0
// The table of `top`: its columns, and which of them fit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/ctl/render/sparkline.h"
#include "daemon/ctl/top/top_question.h"

namespace memprofd::ctl {

struct TopRows {
  std::size_t first = 0, count = 0;  // of the answer
};
// The title, then the rows. width: columns of the screen; 0: no screen, lines are not truncated.
std::vector<std::string> top_table(const TopAnswer& answer, TopRows rows, std::size_t width,
                                   Charset charset);
// One target per row, under a title.
std::vector<std::string> top_targets(const TopAnswer& answer, std::size_t width);
// Function and location, one line per frame, innermost first.
std::vector<std::string> frame_lines(const pb::Site& callstack);

}  // namespace memprofd::ctl
