// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_help.h"

#include "absl/strings/str_cat.h"
#include "daemon/model/measure.h"

namespace memprofd::ctl {

std::vector<std::string> top_help() {
  std::vector<std::string> lines{
      "Move      up down PgUp PgDn Home End, or j k",
      "In, out   Enter: callstacks of a site, then the frames of one; Esc or Backspace: back",
      "Targets   Tab: list of targets, Enter chooses",
      "Group     g: site, function, file, module",
      "Window    w: rates over 10 s, 1 min, 10 min, 1 h, or since the attach",
      "Filter    /: a pattern, or options of memprofctl top (--require X --min-size 1KiB)",
      "Time      space: pause and resume; left right or [ ]: a step back or forward in the",
      "          history; { }: a window; L: live",
      "Other     h ?: this help; q: quit",
      "",
      "Sort by   < >: the column before, after; or"};
  for (const MeasureRow& column : measures()) {
    lines.push_back(absl::StrCat("          ", std::string(1, column.key), "  ",
                                 absl::string_view(column.help.data(), column.help.size())));
  }
  lines.insert(
      lines.end(),
      {"",
       "A sparkline ranges from 0 to the highest value of its row. The number after \xC2\xB1 is "
       "one",
       "standard error. The cursor follows its row; in the first row it stays at the top."});
  return lines;
}

}  // namespace memprofd::ctl
