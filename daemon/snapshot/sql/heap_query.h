// SPDX-License-Identifier: Apache-2.0
// One SELECT over the tables of a heap. The query can only read these and compute. It neither opens
// nor writes files, whatever it contains, and its memory is limited.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/snapshot/sql/heap_tables.h"

struct sqlite3;
struct sqlite3_stmt;

namespace memprofd {

struct QueryLimits {
  // Memory for sorting and grouping in SQLite; one limit for the whole process.
  std::int64_t memory_bytes = std::int64_t{1} << 30;
};

class HeapQuery {
 public:
  // tables must outlive this. kInvalidArgument: no query, more than one, or one that does more than
  // read.
  static absl::StatusOr<HeapQuery> prepare(HeapTables& tables, const std::string& sql,
                                           const QueryLimits& limits = {});

  const std::vector<std::string>& columns() const { return columns_; }
  // The part of a file that the query needs.
  enum class Needs : std::uint8_t { kHead, kTables, kBlocks };
  Needs needs() const { return *needs_; }
  // Passes each row to use as soon as it is found, until there are no more or use returns false.
  // The cells are valid until the next row. kInvalidArgument: a computation of the query fails;
  // kResourceExhausted: it needs more memory than allowed.
  absl::Status run(const std::function<bool(std::span<const SqlCell>)>& use);

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
    void operator()(sqlite3_stmt* statement) const;
  };
  HeapQuery() = default;
  absl::Status open(HeapTables& tables, const QueryLimits& limits);
  absl::Status compile(const std::string& sql);
  absl::Status error(int code) const;

  std::unique_ptr<Needs> needs_ = std::make_unique<Needs>(Needs::kHead);
  std::unique_ptr<sqlite3, Close> connection_;
  std::unique_ptr<sqlite3_stmt, Close> statement_;  // must be destroyed first
  std::vector<std::string> columns_;
};

}  // namespace memprofd
