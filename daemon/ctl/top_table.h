// The table of `top`: which columns there are, and which fit.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "daemon/ctl/sparkline.h"
#include "daemon/ctl/top_question.h"

namespace memprofd::ctl {

// A measure of a group: a column, a sort order, the key that sorts by it.
struct TopColumn {
  pb::SiteOrder order;
  char key;
  bool is_flow;  // shown per second
  const char* title;
  const char* help;
  std::size_t min_width;  // on a screen, so that columns do not jump
};
// From left to right; those that are only shown when they sort come last.
std::span<const TopColumn, 9> top_columns();

struct TopRows {
  std::size_t first = 0, count = 0;  // of the answer
};
// The title, then the rows. width: columns of the screen; 0: no screen, nothing is cut.
std::vector<std::string> top_table(const TopAnswer& answer, TopRows rows, std::size_t width,
                                   Charset charset);
// A target a row, under a title.
std::vector<std::string> top_targets(const TopAnswer& answer, std::size_t width);
// Function and place, a line a frame, innermost first.
std::vector<std::string> frame_lines(const pb::Site& callstack);

}  // namespace memprofd::ctl
