// SPDX-License-Identifier: Apache-2.0
// memprofctl snapshot query: SQL over the file of a heap snapshot.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/ctl/command_line.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/query_options.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/ctl/snapshot/snapshot_options.h"
#include "daemon/ctl/snapshot/whole_image.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/snapshot/sql/heap_query.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

using Row = std::span<const SqlCell>;
using Json = nlohmann::ordered_json;

// A table is held in memory to align it; JSON is streamed and has all rows.
constexpr std::size_t kMaxTableRows = 1'000'000;

struct SqlOptions {
  std::string file;
  std::vector<std::string> cmt;  // more places with types of the source
  std::string sql;
  std::size_t rows = 100;  // of a table; 0: all
};

struct CellText {
  std::string operator()(std::monostate) const { return "-"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{:.15g}", value); }
  std::string operator()(std::string_view text) const { return printable(text); }
  std::string operator()(const std::string& text) const { return printable(text); }
};
struct CellJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const auto& value) const { return value; }
};

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_number(const SqlCell& cell) {
  return std::holds_alternative<std::int64_t>(cell) || std::holds_alternative<double>(cell);
}

// The rows in their original order, and which columns contain only numbers.
class TableRows {
 public:
  explicit TableRows(const std::vector<std::string>& columns)
      : columns_(columns), has_text_(columns.size()) {}

  void add(Row row) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.push_back(std::visit(CellText{}, row[i]));
      if (!is_number(row[i]) && !std::holds_alternative<std::monostate>(row[i])) {
        has_text_[i] = true;
      }
    }
    rows_.push_back(std::move(cells));
  }
  std::size_t size() const { return rows_.size(); }
  // Does not truncate lines at the terminal's width: the end of a path is what holds the block.
  std::string text() && {
    std::vector<Column> columns;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      columns.push_back({printable(columns_[i]), has_text_[i] ? Align::kLeft : Align::kRight});
    }
    TextTable table(std::move(columns));
    for (auto& row : rows_) table.add_row(std::move(row));
    std::string out;
    for (const std::string& line : table.lines()) out += line + "\n";
    return out;
  }

 private:
  const std::vector<std::string>& columns_;
  std::vector<bool> has_text_;
  std::vector<std::vector<std::string>> rows_;
};

absl::Status print_table(HeapQuery& query, const Options& options, std::size_t limit) {
  const std::size_t most = std::min(limit == 0 ? kMaxTableRows : limit, kMaxTableRows);
  TableRows rows(query.columns());
  bool has_more = false;
  RETURN_IF_ERROR(query.run([&](Row row) {
    has_more = rows.size() == most;
    if (!has_more) rows.add(row);
    return !has_more;
  }));
  std::string text = std::move(rows).text();
  if (has_more) text += "… more (-n shows more rows, -o json has all)\n";
  return write_result(text, options.out);
}

absl::Status print_rows_as_json(HeapQuery& query, const Options& options) {
  ASSIGN_OR_RETURN(ResultStream out, ResultStream::open(options.out));
  out.write(fmt::format("{{\"columns\":{},\"rows\":[", dump(query.columns())));
  bool is_first = true;
  RETURN_IF_ERROR(query.run([&](Row row) {
    Json cells = Json::array();
    for (const SqlCell& cell : row) cells.push_back(std::visit(CellJson{}, cell));
    out.write(fmt::format("{}{}", is_first ? "\n" : ",\n", dump(cells)));
    is_first = false;
    return !out.failed();
  }));
  out.write("\n]}\n");
  return out.finish();
}

HeapImage no_blocks() {
  HeapImage image;
  image.edges.first.push_back(0);
  return image;
}

// Reads only the parts of the file that the query needs.
absl::StatusOr<HeapImage> read_image(const SqlOptions& own) {
  HeapTables no_heap(no_blocks());
  ASSIGN_OR_RETURN(const HeapQuery query, HeapQuery::prepare(no_heap, own.sql));
  if (query.needs() == HeapQuery::Needs::kBlocks || !own.cmt.empty()) {
    return read_whole_image(own.file, own.cmt);
  }
  if (query.needs() == HeapQuery::Needs::kTables) return read_whole_tables(own.file);
  HeapImage image = no_blocks();
  ASSIGN_OR_RETURN(image.info, read_heap_info(own.file));
  return image;
}

absl::Status run_snapshot_query(const Options& options, const SqlOptions& own) {
  ASSIGN_OR_RETURN(HeapImage image, read_image(own));
  HeapTables tables(std::move(image));
  ASSIGN_OR_RETURN(HeapQuery query, HeapQuery::prepare(tables, own.sql));
  return options.json() ? print_rows_as_json(query, options)
                        : print_table(query, options, own.rows);
}

}  // namespace

void add_snapshot_query(const CommandLine& line, CLI::App& app) {
  Options& options = line.options();
  SqlOptions& own =
      line.set_up(app, "Run an SQL query over blocks, edges, roots and sites", &run_snapshot_query);
  add_heap_file(app, own.file, own.cmt);
  app.add_option("sql", own.sql, "Query; docs/heap_sql.md lists the tables")
      ->type_name("SELECT")
      ->required();
  app.add_option("-n,--limit", own.rows, "Show at most N rows of a table (0: all)")
      ->capture_default_str();
  add_out(app, options.out);
  add_format(app, options.format, {kTable, kJson});
}

}  // namespace memprofd::ctl
