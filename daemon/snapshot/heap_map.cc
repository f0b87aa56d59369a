// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <variant>

#include "daemon/discover/minor_heap.h"
#include "daemon/snapshot/heap_lists.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

absl::Status add_minor_heap(const MemoryReader& memory, const RuntimeAbi& abi, std::uint64_t state,
                            std::uint32_t domain, HeapMap& map) {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  RETURN_IF_ERROR(memory.read_value(state + abi.young_ptr, begin));
  RETURN_IF_ERROR(memory.read_value(state + abi.young_alloc_end, end));
  if (begin > end || end - begin > kMaxMinorHeapBytes || (begin | end) % kWordBytes != 0) {
    return bad_heap(fmt::format("its minor heap is from {:#x} to {:#x}", begin, end));
  }
  if (begin == end) return absl::OkStatus();
  map.regions.push_back({.begin = begin,
                         .words = (end - begin) / kWordBytes,
                         .domain = domain,
                         .kind = RegionKind::kMinor});
  return absl::OkStatus();
}

absl::Status sort_by_address(std::vector<HeapRegion>& regions) {
  std::sort(regions.begin(), regions.end(),
            [](const HeapRegion& a, const HeapRegion& b) { return a.begin < b.begin; });
  std::uint64_t end = 0;
  for (const HeapRegion& region : regions) {
    if (region.begin < end || region.end() < region.begin) {
      return bad_heap(fmt::format("two parts of it share the word at {:#x}", region.begin));
    }
    end = region.end();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status bad_heap(std::string_view what) {
  return absl::DataLossError(
      fmt::format("the layout of the heap does not match its OCaml version: {}", what));
}

absl::StatusOr<HeapMap> map_heap(const MemoryReader& memory, const HeapLayout& layout,
                                 std::span<const std::uint64_t> states) {
  HeapMap map;
  if (const auto* pools = std::get_if<PoolHeap>(&layout.heap)) {
    RETURN_IF_ERROR(list_pools(memory, layout.abi, *pools, states, map));
  } else if (states.size() != 1) {
    return absl::InvalidArgumentError("OCaml 4 has one state");
  } else {
    RETURN_IF_ERROR(
        list_chunks(memory, layout.abi, std::get<ChunkHeap>(layout.heap), states[0], map));
  }
  for (std::uint32_t i = 0; i < states.size(); ++i) {
    RETURN_IF_ERROR(add_minor_heap(memory, layout.abi, states[i], i, map));
  }
  RETURN_IF_ERROR(sort_by_address(map.regions));
  return map;
}

}  // namespace memprofd
