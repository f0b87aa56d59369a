// Return addresses to source locations.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/aggregate/callstack.h"

namespace memprofd {

struct Location {
  std::string function;            // "Dune__exe__Server.handle", or the symbol, or "0x..."
  std::string file;                // empty when unknown
  std::uint32_t line = 0;          // 1-based; 0 unknown
  std::uint32_t start_column = 0;  // 0-based, half open [start, end)
  std::uint32_t end_column = 0;
  std::string module;  // base name of the ELF file
  friend bool operator==(const Location&, const Location&) = default;
};

// Thread-safe; answers are cached and stay valid after the target has exited.
class Symbolizer {
 public:
  virtual ~Symbolizer() = default;

  // Locations of one return address, innermost inlined function first; never
  // empty (falls back to the ELF symbol, then to the address in hex).
  // alloc_idx selects among combined allocations; -1 takes the first that has
  // debug information, as the runtime does.
  virtual std::vector<Location> locations(std::uint64_t return_address, std::int32_t alloc_idx) = 0;
};

// Innermost location of a callstack: its site. "(unknown)" for an empty one.
Location site_of(Symbolizer& symbolizer, const Callstack& callstack);
// All locations innermost first, inlined frames included, at most max_locations.
// With keep only those for which it holds; others do not count.
std::vector<Location> symbolize(Symbolizer& symbolizer, const Callstack& callstack,
                                std::size_t max_locations,
                                const std::function<bool(const Location&)>& keep = {});

}  // namespace memprofd
