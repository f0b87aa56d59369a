// SPDX-License-Identifier: Apache-2.0
// Finds the abstract blocks that are ephemerons or weak arrays, by the runtime's linked lists.
// Those of a domain that has ended are in no list until another domain adopts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/discover/memory_reader.h"
#include "daemon/snapshot/file/heap_file_writer.h"
#include "daemon/snapshot/heap_layout.h"

namespace memprofd {

// Further ones count as abstract blocks.
inline constexpr std::size_t kMaxEphemerons = 1u << 22;

// Accepts any memory: unreadable data ends a list. states: as for map_heap().
Ephemerons read_ephemerons(const MemoryReader& memory, const HeapLayout& layout,
                           std::span<const std::uint64_t> states);

}  // namespace memprofd
