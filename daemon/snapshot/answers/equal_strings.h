// SPDX-License-Identifier: Apache-2.0
// Finds strings that occur more than once, if a snapshot has contents or fingerprints.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// Reachable ones that are equal to one before them, by block. What has type bytes or is of
// a Buffer is none: it may be written to.
std::vector<std::uint32_t> find_equal_strings(const HeapImage& image, const ShortestPaths& paths);

}  // namespace memprofd
