// SPDX-License-Identifier: Apache-2.0
// SQL over the tables of a heap: no query opens a file or crashes, and every row has all columns.
#include "daemon/snapshot/sql/heap_query.h"

#include <random>

#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/random_image.h"

namespace memprofd::fuzz {
namespace {

// Read this many rows; a query may have endless ones.
constexpr int kRows = 200;

bool read(std::string_view sql) {
  static std::mt19937 random(3);
  static HeapTables tables(random_image(random));
  auto query = HeapQuery::prepare(tables, std::string(sql), {.memory_bytes = 8 << 20});
  if (!query.ok()) {
    require(query.status().message().find('\n') == absl::string_view::npos, "more than one line");
    return false;
  }
  int rows = 0;
  const absl::Status done = query->run([&](std::span<const SqlCell> row) {
    require(row.size() == query->columns().size(), "a row of another width");
    return ++rows < kRows;
  });
  return done.ok();
}

std::vector<std::string> seeds() {
  return {
      "select * from blocks",
      "select * from edges where source = 1",
      "select * from roots",
      "select block, samples, state, callstack from samples join sites using (site)",
      "select name, bytes, parent from retained where row = 0",
      "select root_path(3), root_path(-1), root_path('x')",
      "select tag, count(*) from blocks group by tag order by 2 desc limit 5",
      "select b.block from blocks b, edges e where e.target = b.block and b.tag between 0 and 9",
      "select * from snapshot"};
}

const Add added("query", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
