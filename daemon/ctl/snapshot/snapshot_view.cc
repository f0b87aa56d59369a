// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/snapshot_view.h"

#include <fmt/core.h>

#include "daemon/util/units.h"

namespace memprofd::ctl {

std::string size_text(std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); }
std::string share_of(std::uint64_t part, std::uint64_t whole) {
  return format_share(static_cast<double>(part), static_cast<double>(whole));
}

std::string with_title(const std::string& title, const TextTable& table, const Style& style) {
  std::string out = "\n" + title + "\n";
  for (const std::string& line : table.lines(style.width)) out += line + "\n";
  return out;
}

int shown(int rows, const HeapDumpView& view) {
  const bool is_all = view.limit == 0 || view.limit >= static_cast<std::size_t>(rows);
  return is_all ? rows : static_cast<int>(view.limit);
}
std::string more_text(int rows, const HeapDumpView& view) {
  const int more = rows - shown(rows, view);
  return more == 0 ? "" : fmt::format("… {} more (-n 0 shows all)\n", format_count(more));
}

}  // namespace memprofd::ctl
