// SPDX-License-Identifier: Apache-2.0
// The weak arrays in which Memprof_values keeps the values that a tag or an assertion marks
// (memprof_values_abi.h has their structure). Total on whatever the memory holds.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "daemon/discover/memory_reader.h"

namespace memprofd {

struct MarkArrays {
  bool are_marks = false;  // false: the root is not that of a tag
  bool are_whole = true;   // false: some arrays are missing
};

// Calls use with the places of the arrays, in parts of an even number of places, until it returns
// false. reads_left: maximum number of reads, of at most 4 KiB each; those made are subtracted.
MarkArrays read_mark_arrays(const MemoryReader& memory, std::uint64_t root,
                            std::uint64_t& reads_left,
                            const std::function<bool(std::span<const std::uint64_t> places)>& use);

// True if a word may be the address of a block.
bool may_be_block(std::uint64_t word);

}  // namespace memprofd
