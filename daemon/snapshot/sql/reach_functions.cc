// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/sql/reach_functions.h"

#include <sqlite3.h>

#include <utility>

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

ReachSets& sets_of(sqlite3_context* context) {
  return *static_cast<ReachSets*>(sqlite3_user_data(context));
}

// SQLite provides zeroed room for a pointer in each group.
void add(sqlite3_context* context, int, sqlite3_value** values) {
  auto** set =
      static_cast<ReachedBlocks**>(sqlite3_aggregate_context(context, sizeof(ReachedBlocks*)));
  if (set == nullptr) return sqlite3_result_error_nomem(context);
  if (sqlite3_value_type(values[0]) != SQLITE_INTEGER) return;
  const sqlite3_int64 block = sqlite3_value_int64(values[0]);
  if (block < 0 || block >= sets_of(context).image().blocks()) return;
  if (*set == nullptr) *set = sets_of(context).take().release();
  (*set)->add(static_cast<std::uint32_t>(block));
}

// A group without a block reaches nothing. SQLite also calls this for a query that fails.
template <std::uint64_t (*measure)(const ReachedBlocks&)>
void report_result(sqlite3_context* context) {
  auto** set = static_cast<ReachedBlocks**>(sqlite3_aggregate_context(context, 0));
  if (set == nullptr || *set == nullptr) return sqlite3_result_int64(context, 0);
  std::unique_ptr<ReachedBlocks> found(std::exchange(*set, nullptr));
  sqlite3_result_int64(context, static_cast<sqlite3_int64>(measure(*found)));
  sets_of(context).give_back(std::move(found));
}

std::uint64_t blocks_of(const ReachedBlocks& set) { return set.blocks(); }
std::uint64_t bytes_of(const ReachedBlocks& set) { return set.words() * kWordBytes; }

}  // namespace

std::unique_ptr<ReachedBlocks> ReachSets::take() {
  if (free_.empty()) return std::make_unique<ReachedBlocks>(image_);
  std::unique_ptr<ReachedBlocks> set = std::move(free_.back());
  free_.pop_back();
  return set;
}

void ReachSets::give_back(std::unique_ptr<ReachedBlocks> set) {
  set->clear();
  free_.push_back(std::move(set));
}

void add_reach_functions(sqlite3* connection, ReachSets& sets) {
  const int options = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
  sqlite3_create_function(connection, "reachable_blocks", 1, options, &sets, nullptr, add,
                          report_result<blocks_of>);
  sqlite3_create_function(connection, "reachable_bytes", 1, options, &sets, nullptr, add,
                          report_result<bytes_of>);
}

}  // namespace memprofd
