// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd::ctl {

// The image of a complete file, roots included; a truncated one is refused (kInvalidArgument). Its
// blocks have types as of add_types().
absl::StatusOr<HeapImage> read_whole_image(const std::string& path,
                                           const std::vector<std::string>& cmt);
// The same without blocks: read_heap_tables().
absl::StatusOr<HeapImage> read_whole_tables(const std::string& path);
// Types of the source, from compiled interfaces in these places and where they usually are.
// kNotFound: a place is not there, or there are places and nothing of the program's in them.
absl::Status add_types(HeapImage& image, const std::vector<std::string>& cmt);

}  // namespace memprofd::ctl
