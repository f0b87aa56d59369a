// SPDX-License-Identifier: Apache-2.0
// Reads the debug information that ocamlopt -g emits after each frame descriptor. Pure functions
// over untrusted memory: chains and strings have maximum lengths, and unreadable or out-of-range
// data yields no location.
//
//   descriptor: ... | offset u32                    one, or one per allocation
//                        | relative to the offset's own address
//                        v
//   debuginfo:  info1 u32 | info2 u32 [ info1 | info2 ]...   innermost first
//               bit 0 of info1: another location follows, into which this one was inlined
//               info1 & 0x3FFFFFC: distance from info1's address to the name record
//   name:       i32 offset to the file name, from the record | function name, NUL
//
// OCaml 5.2 and later also store end lines. If numbers are large (bit 31 of info2), some of them
// are in the name record (runtime/backtrace_nat.c):
//
//   name:       i32 offset | start column u16 | end column u16 | i32 end, from the start
//               line's beginning | function name, NUL
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/discover/memory_reader.h"

namespace memprofd {

struct SourceLocation {
  std::string function;  // "Stdlib__List.map", "Dune__exe__Server.handle.(fun)"
  std::string file;
  std::uint32_t line = 0;
  std::uint32_t start_column = 0;
  std::uint32_t end_column = 0;
  friend bool operator==(const SourceLocation&, const SourceLocation&) = default;
};

enum class LocationFormat {
  kLine,   // up to OCaml 5.1
  kLines,  // from 5.2 on
};

// The two packed words of one location. Columns count from the start line's beginning.
struct PackedLocation {
  std::uint32_t info1 = 0;
  std::uint32_t info2 = 0;

  bool has_next() const { return (info1 & 1) != 0; }
  std::uint32_t name_offset() const { return info1 & 0x3FFFFFC; }
  // kLines: the columns are in the name record.
  bool has_more() const { return (info2 & 0x80000000) != 0; }
  std::uint32_t line(LocationFormat format) const;
  std::uint32_t start_column(LocationFormat format) const;
  std::uint32_t end_column(LocationFormat format) const;
};

// Address of the debuginfo of the descriptor at that address. alloc_idx selects among combined
// allocations. If that one has no debuginfo, or alloc_idx is -1 or out of range, returns the first
// that exists, as the runtime does. nullopt if the descriptor has none.
std::optional<std::uint64_t> find_debuginfo(const MemoryReader& memory, std::uint64_t descriptor,
                                            std::int32_t alloc_idx);

// The locations of a debuginfo, innermost inlined function first, up to the first malformed one.
std::vector<SourceLocation> read_debuginfo(const MemoryReader& memory, std::uint64_t debuginfo,
                                           LocationFormat format);

}  // namespace memprofd
