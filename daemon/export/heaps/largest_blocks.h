// SPDX-License-Identifier: Apache-2.0
// The largest single blocks of a heap: long arrays, tables, strings and buffers.
#pragma once

#include <cstddef>

#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"
#include "memprof/v1/heaps.pb.h"

namespace memprofd {

// rows: 0: the largest 1,000.
::memprof::v1::HeapLargest largest_answer(const HeapImage& image, const ShortestPaths& paths,
                                          std::size_t rows = 0);

}  // namespace memprofd
