// SPDX-License-Identifier: Apache-2.0
// Floating garbage of a heap and how long it waits, as the API's message.
#pragma once

#include <cstddef>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"
#include "memprof/v1/heaps.pb.h"

namespace memprofd {

// limit: sites.
::memprof::v1::HeapGarbage garbage_of(const HeapImage& image, const ShortestPaths& paths,
                                      std::size_t limit);

}  // namespace memprofd
