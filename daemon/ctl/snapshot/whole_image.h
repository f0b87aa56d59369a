// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd::ctl {

// The image of a complete file, roots included, with types as added by add_types().
// kInvalidArgument: the file is truncated.
absl::StatusOr<HeapImage> read_whole_image(const std::string& path,
                                           const std::vector<std::string>& cmt);
// Reads the same without blocks; see read_heap_tables().
absl::StatusOr<HeapImage> read_whole_tables(const std::string& path);
// Adds types of the source from compiled interfaces in these places and the usual ones. kNotFound:
// a place does not exist, or there are places but none has files of the program.
absl::Status add_types(HeapImage& image, const std::vector<std::string>& cmt);

}  // namespace memprofd::ctl
