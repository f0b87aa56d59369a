// SPDX-License-Identifier: Apache-2.0
// Finds strings that occur more than once, if a snapshot has contents or fingerprints.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// Reachable strings that are equal to an earlier one, by block. Excludes bytes and contents of
// Buffers, which may be written to.
std::vector<std::uint32_t> find_equal_strings(const HeapImage& image, const ShortestPaths& paths);

}  // namespace memprofd
