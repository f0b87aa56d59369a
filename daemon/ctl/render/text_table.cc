// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/text_table.h"

#include <algorithm>

#include "daemon/util/utf8.h"

namespace memprofd::ctl {

std::string TextTable::line(const std::vector<std::string>& cells,
                            const std::vector<std::size_t>& widths) const {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - display_width(cells[i]), ' ');
    if (i > 0) out += "  ";
    out += columns_[i].align == Align::kRight ? padding + cells[i] : cells[i] + padding;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

std::vector<std::string> TextTable::lines(std::size_t max_width) const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(std::max(columns_[i].min_width, display_width(titles[i])));
    for (const auto& row : rows_) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::vector<std::string> out{line(titles, widths)};
  for (const auto& row : rows_) out.push_back(line(row, widths));
  if (max_width > 0) {
    for (std::string& text : out) text = fit_width(text, max_width);
  }
  return out;
}

}  // namespace memprofd::ctl
