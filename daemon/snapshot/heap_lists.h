// SPDX-License-Identifier: Apache-2.0
// The two ways in which runtimes list the parts of their heaps; map_heap() combines them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/snapshot/heap_layout.h"
#include "daemon/snapshot/heap_map.h"

namespace memprofd {

// Both append the regions of the major heap to map.regions, in list order, and fill in its sums and
// colours. They append no more than the runtime's sums allow.
absl::Status list_chunks(const MemoryReader& memory, const RuntimeAbi& abi, const ChunkHeap& heap,
                         std::uint64_t state, HeapMap& map);
absl::Status list_pools(const MemoryReader& memory, const RuntimeAbi& abi, const PoolHeap& heap,
                        std::span<const std::uint64_t> states, HeapMap& map);

// kDataLoss, for a heap that is inconsistent.
absl::Status bad_heap(std::string_view what);

}  // namespace memprofd
