// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/whole_image.h"

#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {

// Roots come last in the file: without its end, all would seem to be garbage.
absl::StatusOr<HeapImage> read_whole_image(const std::string& path) {
  ASSIGN_OR_RETURN(HeapImage image, read_heap_image(path));
  if (image.info.complete) return image;
  return absl::InvalidArgumentError(
      path + " is cut off or damaged, and with its end the roots are lost; only memprofctl " +
      "snapshot show counts what is left; take another");
}

}  // namespace memprofd::ctl
