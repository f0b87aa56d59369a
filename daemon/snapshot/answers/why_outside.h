// SPDX-License-Identifier: Apache-2.0
// Answers why native memory is still held: the amount by class of blocks, and the paths from roots
// that lead to the blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/block_class.h"
#include "daemon/snapshot/answers/path_tree.h"
#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

struct OutsideCount {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;     // native memory
  std::uint64_t resident = 0;  // resident part, if the blocks' malloc chunks are known
};

struct OutsideRow {
  std::string name;  // name of a class: "custom camlzip_stream_ops"
  OutsideCount reachable;
  OutsideCount garbage;  // unreachable, not found by the collector yet
};

class WhyOutside {
 public:
  // wanted: by the name of a block's class. The image must outlive this.
  WhyOutside(const HeapImage& image, const std::function<bool(const std::string&)>& wanted);
  WhyOutside(const WhyOutside&) = delete;
  WhyOutside& operator=(const WhyOutside&) = delete;

  // The wanted classes that hold native memory, largest first.
  const std::vector<OutsideRow>& classes() const { return rows_; }
  // Paths to the reachable ones: exact sums of blocks and of their native memory.
  const PathTree& tree() const { return tree_; }

 private:
  const BlockClasses classes_;
  const ShortestPaths paths_;
  PathTree tree_;
  std::vector<OutsideRow> rows_;
};

}  // namespace memprofd
