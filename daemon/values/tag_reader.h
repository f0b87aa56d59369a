// SPDX-License-Identifier: Apache-2.0
// Reads the values that a tag of the program marks (memprof_values_abi.h has their location): their
// number, and the memory that is reachable from them, each block once. Accepts any contents of that
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/discover/memory_reader.h"
#include "daemon/discover/target.h"
#include "daemon/values/value.h"

namespace memprofd {

// Limits: places for marked values and reads of them, their blocks, and words of those.
inline constexpr std::size_t kMaxMarkPlaces = 1'000'000;
inline constexpr std::size_t kMaxMarkReads = 20'000;
inline constexpr std::size_t kMaxMarkedBlocks = 20'000;
inline constexpr std::size_t kMaxMarkedWords = 1'000'000;

// root: the tag's; none: the content of an empty place. Values in the image, such as constants,
// count as marked, but not as memory. blocks: maximum number of blocks. The result has kind kTag,
// or is unread if there is no tag.
Value read_tag(const MemoryReader& memory, const AddressRange& image, std::uint64_t root,
               std::uint64_t none, std::size_t blocks = kMaxMarkedBlocks);

}  // namespace memprofd
