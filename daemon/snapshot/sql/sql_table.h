// SPDX-License-Identifier: Apache-2.0
// Virtual SQL tables whose cells are computed when they are read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"

struct sqlite3;

namespace memprofd {

// monostate is NULL. A string_view is valid as long as the table.
using SqlCell = std::variant<std::monostate, std::int64_t, double, std::string_view, std::string>;

struct SqlRows {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

struct SqlTable {
  std::string name;
  std::string columns;  // "block INTEGER, field INTEGER": as in CREATE TABLE
  // Called before the first cell is read; expensive data is computed here.
  std::function<std::uint64_t()> rows;
  std::function<SqlCell(std::uint64_t row, int column)> cell;
  // The rows whose first column is the key; null: all rows are scanned.
  std::function<SqlRows(std::int64_t key)> with_key = nullptr;
};

// The table must outlive the connection.
absl::Status add_table(sqlite3* connection, const SqlTable& table);

}  // namespace memprofd
