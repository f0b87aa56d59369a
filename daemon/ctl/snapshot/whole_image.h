// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd::ctl {

// The image of a file with all that was there, roots included: a part of a heap is refused
// (kInvalidArgument).
absl::StatusOr<HeapImage> read_whole_image(const std::string& path);

}  // namespace memprofd::ctl
