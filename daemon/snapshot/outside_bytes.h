// SPDX-License-Identifier: Apache-2.0
// Native memory that custom blocks of the standard library hold, by their identifier: the elements
// of a Bigarray, the buffer of a channel.
//
// Fields of a Bigarray, the same from 4.11 to 5.4: operations, data, number of dimensions, flags
// with the kind of its elements, proxy, dimensions. Bigarrays that share memory
// (Bigarray.Array1.sub) each count with the memory that they show.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/discover/memory_reader.h"

namespace memprofd {

// Upper bound: an address space.
inline constexpr std::uint64_t kMaxOutsideBytes = std::uint64_t{1} << 47;
inline constexpr std::string_view kBigarrayIdentifier = "_bigarr02";
inline constexpr std::string_view kChannelIdentifier = "_chan";

// Identifier in the operations of custom blocks, a block's first field: the first 64 bytes, up to a
// non-printable one. Empty if it cannot be read.
struct CustomIdentifier {
  std::string text;
  bool is_printable = true;  // no non-printable character follows
};
CustomIdentifier read_custom_identifier(const MemoryReader& memory, std::uint64_t operations);

// fields: the available ones; accepts any. 0: none, or unknown.
std::uint64_t outside_bytes(std::string_view identifier, std::span<const std::uint64_t> fields);

}  // namespace memprofd
