// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/sql/heap_query.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/sql/reach_functions.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr struct {
  int limit;
  int value;
} kLimits[] = {{SQLITE_LIMIT_ATTACHED, 0},         {SQLITE_LIMIT_LENGTH, 16 << 20},
               {SQLITE_LIMIT_SQL_LENGTH, 100'000}, {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1'000},
               {SQLITE_LIMIT_WORKER_THREADS, 0},   {SQLITE_LIMIT_TRIGGER_DEPTH, 0}};

HeapQuery::Needs needed_for_table(std::string_view table) {
  using Needs = HeapQuery::Needs;
  if (table == "snapshot") return Needs::kHead;
  const bool has_no_blocks = table == "dead_sizes" || table == "free_sizes" || table == "sites";
  return has_no_blocks ? Needs::kTables : Needs::kBlocks;
}

HeapQuery::Needs needed_for_function(std::string_view function) {
  const bool is_of_blocks = function == "root_path" || function.starts_with("reachable_");
  return is_of_blocks ? HeapQuery::Needs::kBlocks : HeapQuery::Needs::kHead;
}

int authorize(void* needs, int action, const char* table, const char* function, const char*,
              const char*) {
  auto& all = *static_cast<HeapQuery::Needs*>(needs);
  switch (action) {
    case SQLITE_READ:
      all = std::max(all, needed_for_table(table));
      return SQLITE_OK;
    case SQLITE_FUNCTION:
      all = std::max(all, needed_for_function(function));
      return SQLITE_OK;
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    default:
      return SQLITE_DENY;
  }
}

void root_path(sqlite3_context* context, int, sqlite3_value** values) {
  if (sqlite3_value_type(values[0]) != SQLITE_INTEGER) return sqlite3_result_null(context);
  auto& tables = *static_cast<HeapTables*>(sqlite3_user_data(context));
  const std::string text = tables.root_path(sqlite3_value_int64(values[0]));
  if (text.empty()) return sqlite3_result_null(context);
  sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

SqlCell cell_of(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return std::int64_t{sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);
    case SQLITE_NULL:
      return {};
    default:
      break;
  }
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  if (text == nullptr) return {};
  return std::string_view(text, static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
}

bool is_blank(std::string_view sql) { return sql.find_first_not_of(" \t\r\n;") == sql.npos; }

}  // namespace

void HeapQuery::Close::operator()(sqlite3* connection) const { sqlite3_close(connection); }
void HeapQuery::Close::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

absl::Status HeapQuery::error(int code) const {
  if (code == SQLITE_NOMEM) {
    return absl::ResourceExhaustedError(
        "the query needs more memory than it may have for sorting and grouping; group by fewer "
        "values or select fewer rows first");
  }
  // The message repeats the query, with its newlines.
  const std::string text = printable(sqlite3_errmsg(connection_.get()));
  if (code == SQLITE_AUTH) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad query: only SELECT is allowed (", text, ")"));
  }
  return absl::InvalidArgumentError(absl::StrCat("bad query: ", text));
}

absl::Status HeapQuery::open(HeapTables& tables, const QueryLimits& limits) {
  sqlite3* connection = nullptr;
  const int opened =
      sqlite3_open_v2(":memory:", &connection,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_MEMORY, nullptr);
  connection_.reset(connection);
  if (opened != SQLITE_OK) return absl::InternalError(sqlite3_errstr(opened));
  for (const auto& [limit, value] : kLimits) sqlite3_limit(connection, limit, value);
  sqlite3_db_config(connection, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_db_config(connection, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  // Sorting would otherwise use files.
  sqlite3_exec(connection, "PRAGMA temp_store = MEMORY", nullptr, nullptr, nullptr);
  sqlite3_hard_heap_limit64(limits.memory_bytes);
  for (const SqlTable& table : tables.tables()) RETURN_IF_ERROR(add_table(connection, table));
  sqlite3_create_function(connection, "root_path", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, &tables,
                          root_path, nullptr, nullptr);
  add_reach_functions(connection, tables.reach_sets());
  sqlite3_set_authorizer(connection, authorize, needs_.get());
  return absl::OkStatus();
}

absl::Status HeapQuery::compile(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const char* rest = nullptr;
  const int compiled = sqlite3_prepare_v2(connection_.get(), sql.c_str(),
                                          static_cast<int>(sql.size() + 1), &statement, &rest);
  statement_.reset(statement);
  if (compiled != SQLITE_OK) return error(compiled);
  if (statement == nullptr) {
    return absl::InvalidArgumentError("the query is empty; for example: select * from snapshot");
  }
  if (!is_blank(rest)) return absl::InvalidArgumentError("give one query at a time");
  for (int i = 0; i < sqlite3_column_count(statement); ++i) {
    columns_.emplace_back(sqlite3_column_name(statement, i));
  }
  return absl::OkStatus();
}

absl::StatusOr<HeapQuery> HeapQuery::prepare(HeapTables& tables, const std::string& sql,
                                             const QueryLimits& limits) {
  HeapQuery query;
  RETURN_IF_ERROR(query.open(tables, limits));
  RETURN_IF_ERROR(query.compile(sql));
  return query;
}

absl::Status HeapQuery::run(const std::function<bool(std::span<const SqlCell>)>& use) {
  std::vector<SqlCell> row(columns_.size());
  for (;;) {
    const int stepped = sqlite3_step(statement_.get());
    if (stepped == SQLITE_DONE) return absl::OkStatus();
    if (stepped != SQLITE_ROW) return error(stepped);
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = cell_of(statement_.get(), static_cast<int>(i));
    }
    if (!use(row)) return absl::OkStatus();
  }
}

}  // namespace memprofd
