// SPDX-License-Identifier: Apache-2.0
// Why what some sites have allocated is still in the heap: how much of it is, and the ways from
// roots that lead to it.
#pragma once

#include <vector>

#include "daemon/snapshot/answers/block_class.h"
#include "daemon/snapshot/answers/image_census.h"
#include "daemon/snapshot/answers/path_tree.h"
#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

class Why {
 public:
  // wanted: by site of the image, which must outlive this.
  Why(const HeapImage& image, const std::vector<bool>& wanted);
  Why(const Why&) = delete;
  Why& operator=(const Why&) = delete;

  // Those that are wanted and have a sampled block, by innermost frame.
  const std::vector<SiteRow>& sites() const { return sites_; }
  const SiteSums& sums() const { return sums_; }  // of all these
  const TypedCount& types() const { return types_; }
  const PathTree& tree() const { return tree_; }  // to their reachable blocks

 private:
  const BlockClasses classes_;
  const ShortestPaths paths_;
  PathTree tree_;
  std::vector<SiteRow> sites_;
  SiteSums sums_;
  const TypedCount types_;
};

}  // namespace memprofd
