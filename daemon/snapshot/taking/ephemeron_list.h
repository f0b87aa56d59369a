// SPDX-License-Identifier: Apache-2.0
// Which abstract blocks are ephemerons or weak arrays: those in the runtime's lists, which lead
// from one to the next. Of those of a domain that has ended nobody knows until another one takes
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/discover/memory_reader.h"
#include "daemon/snapshot/file/heap_file_writer.h"
#include "daemon/snapshot/heap_layout.h"

namespace memprofd {

// More are taken for abstract blocks.
inline constexpr std::size_t kMostEphemerons = 1u << 22;

// Total: what cannot be read ends a list. states: as of map_heap().
Ephemerons read_ephemerons(const MemoryReader& memory, const HeapLayout& layout,
                           std::span<const std::uint64_t> states);

}  // namespace memprofd
