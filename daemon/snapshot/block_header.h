// SPDX-License-Identifier: Apache-2.0
// The word before each block of an OCaml heap, the same in 4.11 to 5.4 on 64-bit machines:
//
//     63 .. 10  words of the block, without this one     9 .. 8  colour     7 .. 0  tag
#pragma once

#include <cstdint>

#include "daemon/model/heap.h"

namespace memprofd {

// Blocks with these tags and above contain no values: abstract, strings, floats, custom blocks.
inline constexpr unsigned kNoScanTag = 251;
inline constexpr unsigned kForcingTag = 244;       // OCaml 5
inline constexpr unsigned kContinuationTag = 245;  // OCaml 5
inline constexpr unsigned kLazyTag = 246;
inline constexpr unsigned kClosureTag = 247;
inline constexpr unsigned kObjectTag = 248;
inline constexpr unsigned kInfixTag = 249;
inline constexpr unsigned kForwardTag = 250;
inline constexpr unsigned kAbstractTag = 251;  // includes ephemerons and weak arrays
inline constexpr unsigned kStringTag = 252;
inline constexpr unsigned kFloatTag = 253;
inline constexpr unsigned kFloatArrayTag = 254;
inline constexpr unsigned kCustomTag = 255;

constexpr unsigned tag_of(std::uint64_t header) { return header & 0xff; }
// The two colour bits in place: 0, 0x100, 0x200 or 0x300.
constexpr std::uint64_t colour_of(std::uint64_t header) { return header & 0x300; }
constexpr std::uint64_t fields_of(std::uint64_t header) { return header >> 10; }
// Size including the header; never 0 and too small to overflow.
constexpr std::uint64_t words_with_header(std::uint64_t header) { return fields_of(header) + 1; }
constexpr bool holds_values(std::uint64_t header) { return tag_of(header) < kNoScanTag; }

}  // namespace memprofd
