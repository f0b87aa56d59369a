// SPDX-License-Identifier: Apache-2.0
// Encodes frames of callstacks as the codes of a trace.
//
//   bit 63 .. 61   60 .. 48           47 .. 0
//        0         alloc_idx + 1      return address
//
// alloc_idx distinguishes the allocations that the compiler has combined at one address. This field
// is 0 if it is unknown, or for a call; all bits are set if the address is that of the allocation's
// debuginfo. So codes are injective, and stay below the numbers that the format reserves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/model/callstack.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/trace/ctf/ctf_format.h"

namespace memprofd {

// The code for all impossible addresses.
inline constexpr std::uint64_t kUnknownCode = std::uint64_t{1} << 61;
// Deeper callstacks keep the outermost frames and the innermost kInnermostCodes,
// with ctf::kCutCode between them.
inline constexpr std::size_t kMaxCodes = 8192;
inline constexpr std::size_t kInnermostCodes = 64;

std::uint64_t trace_code(std::uint64_t return_address, std::int32_t alloc_idx);
// Caller before callee, as traces have them.
std::vector<ctf::Location> trace_locations(Symbolizer& symbolizer, std::uint64_t code);
// Outermost first, with recursion expanded; replaces the contents of codes.
void trace_callstack(const Callstack& callstack, std::vector<std::uint64_t>& codes);

}  // namespace memprofd
