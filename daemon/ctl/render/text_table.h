// SPDX-License-Identifier: Apache-2.0
// Aligned columns of text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace memprofd::ctl {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  std::size_t min_width = 0;
};

class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell for each column, UTF-8 without control characters.
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Title line first. Two spaces between columns, none at the end of a line.
  // max_width cuts lines; 0 does not.
  std::vector<std::string> lines(std::size_t max_width = 0) const;

 private:
  std::string line(const std::vector<std::string>& cells,
                   const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace memprofd::ctl
