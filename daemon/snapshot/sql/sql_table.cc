// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/sql/sql_table.h"

#include <sqlite3.h>

#include <algorithm>
#include <new>

#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

// SQLite's view of a table; it casts to and from the first member.
struct Table {
  sqlite3_vtab base = {};
  const SqlTable* of = nullptr;
};
struct Cursor {
  sqlite3_vtab_cursor base = {};
  const SqlTable* of = nullptr;
  SqlRows left;
};

// Numbers of plans.
constexpr int kAllRows = 0, kRowsWithKey = 1;
// Costs for SQLite's planner: few rows have one key.
constexpr double kKeyCost = 10, kAllCost = 1e6;

Cursor& cursor(sqlite3_vtab_cursor* base) { return *reinterpret_cast<Cursor*>(base); }

int connect(sqlite3* connection, void* of, int, const char* const*, sqlite3_vtab** out, char**) {
  const auto* table = static_cast<const SqlTable*>(of);
  const std::string declaration = absl::StrCat("CREATE TABLE x(", table->columns, ")");
  const int declared = sqlite3_declare_vtab(connection, declaration.c_str());
  if (declared != SQLITE_OK) return declared;
  *out = &(new Table{.of = table})->base;
  return SQLITE_OK;
}
int disconnect(sqlite3_vtab* base) {
  delete reinterpret_cast<Table*>(base);
  return SQLITE_OK;
}

int best_index(sqlite3_vtab* base, sqlite3_index_info* info) {
  const SqlTable& table = *reinterpret_cast<Table*>(base)->of;
  info->idxNum = kAllRows;
  info->estimatedCost = kAllCost;
  for (int i = 0; table.with_key && i < info->nConstraint; ++i) {
    const auto& constraint = info->aConstraint[i];
    if (constraint.usable == 0 || constraint.iColumn != 0) continue;
    if (constraint.op != SQLITE_INDEX_CONSTRAINT_EQ) continue;
    info->aConstraintUsage[i].argvIndex = 1;
    info->idxNum = kRowsWithKey;
    info->estimatedCost = kKeyCost;
    info->estimatedRows = static_cast<sqlite3_int64>(kKeyCost);
    break;
  }
  return SQLITE_OK;
}

int open(sqlite3_vtab* base, sqlite3_vtab_cursor** out) {
  *out = &(new Cursor{.of = reinterpret_cast<Table*>(base)->of})->base;
  return SQLITE_OK;
}
int close(sqlite3_vtab_cursor* base) {
  delete &cursor(base);
  return SQLITE_OK;
}
// SQLite compares again afterwards. A value that is not a whole number has no rows here.
int filter(sqlite3_vtab_cursor* base, int plan, const char*, int, sqlite3_value** values) {
  Cursor& at = cursor(base);
  at.left = {0, at.of->rows()};
  if (plan == kAllRows) return SQLITE_OK;
  const int type = sqlite3_value_numeric_type(values[0]);
  const sqlite3_int64 key = sqlite3_value_int64(values[0]);
  const bool is_whole =
      type == SQLITE_INTEGER ||
      (type == SQLITE_FLOAT && sqlite3_value_double(values[0]) == static_cast<double>(key));
  const SqlRows found = is_whole ? at.of->with_key(key) : SqlRows{};
  at.left = {found.first, std::min(found.end, at.left.end)};
  return SQLITE_OK;
}
int next(sqlite3_vtab_cursor* base) {
  ++cursor(base).left.first;
  return SQLITE_OK;
}
int is_at_end(sqlite3_vtab_cursor* base) {
  return cursor(base).left.first >= cursor(base).left.end ? 1 : 0;
}

struct PutCell {
  sqlite3_context* context;

  void operator()(std::monostate) const { sqlite3_result_null(context); }
  void operator()(std::int64_t value) const { sqlite3_result_int64(context, value); }
  void operator()(double value) const { sqlite3_result_double(context, value); }
  void operator()(std::string_view text) const {
    sqlite3_result_text64(context, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  void operator()(const std::string& text) const {
    sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
};
int column(sqlite3_vtab_cursor* base, sqlite3_context* context, int number) {
  const Cursor& at = cursor(base);
  std::visit(PutCell{context}, at.of->cell(at.left.first, number));
  return SQLITE_OK;
}
int row_id(sqlite3_vtab_cursor* base, sqlite3_int64* out) {
  *out = static_cast<sqlite3_int64>(cursor(base).left.first);
  return SQLITE_OK;
}

// There is no function that creates a table: its name alone makes it available.
constexpr sqlite3_module kModule{.iVersion = 0,
                                 .xConnect = connect,
                                 .xBestIndex = best_index,
                                 .xDisconnect = disconnect,
                                 .xDestroy = disconnect,
                                 .xOpen = open,
                                 .xClose = close,
                                 .xFilter = filter,
                                 .xNext = next,
                                 .xEof = is_at_end,
                                 .xColumn = column,
                                 .xRowid = row_id};

}  // namespace

absl::Status add_table(sqlite3* connection, const SqlTable& table) {
  const int added = sqlite3_create_module_v2(connection, table.name.c_str(), &kModule,
                                             const_cast<SqlTable*>(&table), nullptr);
  // SQLite declares a table when it is first named, and would ask an authorizer about that.
  const std::string naming = absl::StrCat("SELECT * FROM ", table.name);
  sqlite3_stmt* statement = nullptr;
  const bool is_named = added == SQLITE_OK && sqlite3_prepare_v2(connection, naming.c_str(), -1,
                                                                 &statement, nullptr) == SQLITE_OK;
  sqlite3_finalize(statement);
  if (is_named) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cannot add table ", table.name, ": ", sqlite3_errmsg(connection)));
}

}  // namespace memprofd
