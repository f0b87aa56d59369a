// SPDX-License-Identifier: Apache-2.0
// Memory that custom blocks of the standard library hold outside of the heap, by their identifier:
// the elements of a Bigarray, the buffer of a channel; and how to read it.
//
// Fields of a Bigarray, the same from 4.11 to 5.4: operations, data, number of dimensions, flags
// with the kind of its elements, proxy, dimensions. Parts of one that share its memory
// (Bigarray.Array1.sub) each count with the memory that they show.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/discover/memory_reader.h"

namespace memprofd {

// Nothing has more: an address space.
inline constexpr std::uint64_t kMostOutsideBytes = std::uint64_t{1} << 47;
inline constexpr std::string_view kBigarrayIdentifier = "_bigarr02";
inline constexpr std::string_view kChannelIdentifier = "_chan";

// Identifier in the operations of custom blocks, a block's first field: the first 64 bytes, up to
// one that is not printable. Empty if it cannot be read.
struct CustomIdentifier {
  std::string text;
  bool is_printable = true;  // nothing that is not follows
};
CustomIdentifier read_custom_identifier(const MemoryReader& memory, std::uint64_t operations);

// fields: those at hand; total on any. 0: nothing, or it is not known.
std::uint64_t outside_bytes(std::string_view identifier, std::span<const std::uint64_t> fields);

}  // namespace memprofd
