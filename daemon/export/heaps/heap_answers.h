// SPDX-License-Identifier: Apache-2.0
// Answers from a heap snapshot as messages of the API: one for each answer, which gRPC sends, HTTP
// and memprofctl print as JSON, and memprofctl and the page show as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/snapshot/answers/image_census.h"
#include "daemon/snapshot/answers/image_diff.h"
#include "daemon/snapshot/answers/retained.h"
#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/answers/tree_rows.h"
#include "daemon/snapshot/answers/why.h"
#include "daemon/snapshot/answers/why_outside.h"
#include "daemon/snapshot/heap_image.h"
#include "memprof/v1/heaps.pb.h"

namespace memprofd {

::memprof::v1::HeapCount to_proto(const BlockCount& count);
::memprof::v1::HeapTypes to_proto(const TypedCount& types);
// The caller fills in name and size of the file.
::memprof::v1::KeptHeap to_proto(const ImageInfo& info);

// The number of rows of each table for a request with this limit; 0: the default.
inline std::size_t rows_of(std::uint32_t limit) { return limit == 0 ? 20 : limit; }

// rows: the maximum for each long table; 0: no maximum.
::memprof::v1::HeapCensus census_answer(const HeapImage& image, const ShortestPaths& paths,
                                        std::size_t rows = 0);
// Rows of the table in tops, and the rows below them.
::memprof::v1::HeapRetained retained_answer(const ImageInfo& info, const RetainedTable& table,
                                            const std::vector<std::uint32_t>& tops,
                                            const TreeLimits& limits = {});
::memprof::v1::HeapWhy why_answer(const ImageInfo& info, const Why& why,
                                  const TreeLimits& limits = {});
::memprof::v1::HeapOutside outside_answer(const ImageInfo& info, const WhyOutside& why,
                                          const TreeLimits& limits = {});
::memprof::v1::HeapDiff diff_answer(const ImageSummary& base, const ImageSummary& other,
                                    std::size_t rows = 0);
::memprof::v1::HeapGarbage garbage_answer(const HeapImage& image, const ShortestPaths& paths,
                                          std::size_t rows = 0);
// rows: the number of places for each pattern.
::memprof::v1::HeapWaste waste_answer(const HeapImage& image, const ShortestPaths& paths,
                                      std::size_t rows = 0);
// Join the threads of the image first (answers/stacks), so that paths are as in `why`.
::memprof::v1::HeapAssertions assertions_answer(const HeapImage& image, const ShortestPaths& paths,
                                                std::size_t rows = 0);

}  // namespace memprofd
