// SPDX-License-Identifier: Apache-2.0
// Finds the source location of a frame by its return address: that of the innermost inlined
// function.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/symbolize/symbolizer.h"

namespace memprofd {

class FrameLocations {
 public:
  explicit FrameLocations(Symbolizer& symbolizer) : symbolizer_(symbolizer) {}

  // Returns an empty location for an unknown address, including 0.
  const Location& of(std::uint64_t return_address) {
    const auto [at, added] = known_.try_emplace(return_address);
    if (!added || return_address == 0) return at->second;
    const std::vector<Location> found = symbolizer_.locations(return_address, -1);
    if (!found.empty()) at->second = found.front();
    return at->second;
  }

 private:
  Symbolizer& symbolizer_;
  absl::flat_hash_map<std::uint64_t, Location> known_;
};

}  // namespace memprofd
