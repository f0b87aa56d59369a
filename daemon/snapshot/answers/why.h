// SPDX-License-Identifier: Apache-2.0
// Answers why blocks allocated at some sites are still in the heap: their amount, and the paths
// from roots that lead to them.
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
  // wanted: by site of the image. The image must outlive this.
  Why(const HeapImage& image, const std::vector<bool>& wanted);
  Why(const Why&) = delete;
  Why& operator=(const Why&) = delete;

  // The wanted sites that have a sampled block, by innermost frame.
  const std::vector<SiteRow>& sites() const { return sites_; }
  const SiteSums& sums() const { return sums_; }  // total of all these sites
  const TypedCount& types() const { return types_; }
  const PathTree& tree() const { return tree_; }  // paths to their reachable blocks

 private:
  const BlockClasses classes_;
  const ShortestPaths paths_;
  PathTree tree_;
  std::vector<SiteRow> sites_;
  SiteSums sums_;
  const TypedCount types_;
};

}  // namespace memprofd
