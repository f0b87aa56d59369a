// SPDX-License-Identifier: Apache-2.0
// Reads a heap file, which may be anybody's, or was cut off when something died: the image has what
// its whole pieces tell. Memory and time grow with the file alone, whatever it claims.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// In one line: kInvalidArgument, it is no heap file, or damaged in what it says, not only cut off;
// else as of open_regular_file().
absl::StatusOr<HeapImage> read_heap_image(const std::string& path);

}  // namespace memprofd
