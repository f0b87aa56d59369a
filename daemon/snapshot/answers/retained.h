// SPDX-License-Identifier: Apache-2.0
// Retained sizes: the dominator tree of a heap below its roots, as a table that can be expanded. A
// row is a kind of roots, a module or thread, a field or frame, or all blocks of a class that only
// the row above keeps alive. A row retains the memory that would be freed if it were gone.
//
//   all roots
//     globals
//       Cache
//         field 2            the block that it points to, and everything that only this field
//                            reaches
//           block(4)
//             array
//         several, nearest global Cache, field 3
//                            reached from more than one field of Cache, and from nowhere else
//
// Blocks of one class below each other (the cells of a list, a tree's nodes) are one row.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/block_class.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

struct RetainedRow {
  enum class What : std::uint8_t { kRoots, kShared, kBlocks };

  std::uint32_t parent = 0;  // index in RetainedTable::rows; the first row is its own parent
  What what = What::kRoots;
  // Index: a node of the RootTree, the name of the nearest root, or a class of blocks.
  std::uint32_t number = 0;
  std::uint32_t blocks_down = 0;  // number of block rows on the path from the roots to this one
  std::string name;
  std::uint64_t blocks = 0;  // retained, including those of the row itself
  std::uint64_t words = 0;
  std::uint64_t outside_bytes = 0;  // native memory that these blocks hold
  std::uint64_t own_blocks = 0;  // blocks of the row itself, including blocks that are too deep for
                                 // rows
  std::uint64_t own_words = 0;
  std::uint64_t own_outside_bytes = 0;

  // Memory that would be freed if the row were gone.
  std::uint64_t all_bytes() const { return words * 8 + outside_bytes; }
};

struct RetainedTable {
  std::vector<RetainedRow> rows;  // each after its parent; the first one retains everything
  // Blocks without a row of their class, because there are too many rows: they count in the row
  // above.
  std::uint64_t blocks_without_row = 0;

  // "globals / Cache / field 2"; for the first row its own name.
  std::string full_name(std::uint32_t row) const;
  // Rows of roots for whose full name is_taken is true, without rows below such a row.
  std::vector<std::uint32_t> roots_named(
      const std::function<bool(const std::string&)>& is_taken) const;
  // The rows below each row, the largest first.
  std::vector<std::vector<std::uint32_t>> children() const;
};

struct RetainedOptions {
  std::uint32_t depth = 3;  // maximum nesting of block rows
  std::size_t max_rows = 1'000'000;
};

// Adds nodes to the image's edges temporarily.
RetainedTable find_retained(HeapImage& image, const RetainedOptions& options);

}  // namespace memprofd
