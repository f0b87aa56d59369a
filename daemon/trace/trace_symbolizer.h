// SPDX-License-Identifier: Apache-2.0
// Locations of a trace's codes, which stand in for return addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_set.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/trace/ctf/ctf_format.h"

namespace memprofd {

// Nothing may be added after the first query.
class TraceSymbolizer : public Symbolizer {
 public:
  // Locations kept for all codes together, about 40 bytes each; codes beyond that have no location.
  static constexpr std::size_t kMaxLocations = 4u << 20;

  // Caller before callee. The last call for a code wins.
  void add(std::uint64_t code, std::span<const ctf::Location> locations);

  std::vector<Location> look_up(std::uint64_t code, std::int32_t alloc_idx) override;

 private:
  // Stores each name once.
  struct StoredLocation {
    const std::string* function;
    const std::string* file;
    std::uint32_t line;
    std::uint16_t start_column;
    std::uint16_t end_column;
  };

  const std::string* name(const std::string& text);

  absl::node_hash_set<std::string> names_;
  absl::flat_hash_map<std::uint64_t, std::vector<StoredLocation>> locations_;  // innermost first
  std::size_t size_ = 0;
};

}  // namespace memprofd
