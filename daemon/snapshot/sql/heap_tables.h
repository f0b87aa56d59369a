// SPDX-License-Identifier: Apache-2.0
// A heap as tables: blocks, edges, roots, sampled blocks, their callstacks, retained sizes.
// docs/heap_sql.md describes the columns for users. Expensive data (dominators, nearest roots) is
// computed once, when a query first needs it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/block_class.h"
#include "daemon/snapshot/answers/retained.h"
#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/snapshot/sql/reach_functions.h"
#include "daemon/snapshot/sql/sql_table.h"

namespace memprofd {

class HeapTables {
 public:
  explicit HeapTables(HeapImage image);
  HeapTables(const HeapTables&) = delete;
  HeapTables& operator=(const HeapTables&) = delete;

  const ImageInfo& info() const { return image_.info; }
  const std::vector<SqlTable>& tables() const { return tables_; }
  ReachSets& reach_sets() { return reach_sets_; }
  // "global Cache, field 2 → block(4) field 1 → array": the shortest path to the block; empty if
  // there is none.
  std::string root_path(std::int64_t block);

 private:
  struct Dominated {
    std::vector<std::uint32_t> by;  // block, by block; kNoBlock: several roots, or no block
    std::vector<std::uint64_t> words;
  };

  void add_blocks();
  void add_edges();
  void add_roots();
  void add_weak();
  void add_samples();
  void add_sites();
  void add_contents();
  std::string content_text(const BlockContents& of) const;
  void add_retained();
  void add_sizes();
  void add_snapshot();

  SqlCell block_cell(std::uint32_t block, int column);
  SqlCell root_cell(const ImageRoot& root, int column) const;
  SqlCell sample_cell(const SampledBlock& sampled, int column);
  SqlCell retained_cell(std::uint32_t row, int column);
  std::string callstack_text(std::uint32_t site) const;

  const ShortestPaths& paths();
  const std::vector<std::uint32_t>& nearest();
  const Dominated& dominated();
  const RetainedTable& retained();

  HeapImage image_;
  ReachSets reach_sets_;
  const BlockClasses classes_;
  std::vector<std::string> root_texts_;  // by number of a root's name
  std::vector<ImageRoot> roots_;         // by block
  std::vector<WeakPointer> weak_;        // by block
  std::vector<SampledBlock> sampled_;    // by block
  std::vector<SqlTable> tables_;
  std::optional<ShortestPaths> paths_;
  std::optional<std::vector<std::uint32_t>> nearest_;
  std::optional<Dominated> dominated_;
  std::optional<RetainedTable> retained_;
};

}  // namespace memprofd
