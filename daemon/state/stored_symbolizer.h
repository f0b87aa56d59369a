// SPDX-License-Identifier: Apache-2.0
// The names that a target's symbolizer had found, for use after its program has gone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/symbolize/symbolizer.h"

namespace memprofd {

// Nothing may be added after the first query.
class StoredSymbolizer : public Symbolizer {
 public:
  using Symbolizer::Symbolizer;

  // Locations are numbered from 0 in this order.
  void add(Location location) { locations_.push_back(std::move(location)); }
  // Locations innermost first. Ignores invalid numbers; the last call for a frame wins.
  void add_frame(std::uint64_t return_address, std::int32_t alloc_idx,
                 std::vector<std::uint32_t> locations);

  std::vector<Location> look_up(std::uint64_t return_address, std::int32_t alloc_idx) override;

 private:
  std::vector<Location> locations_;
  absl::flat_hash_map<std::pair<std::uint64_t, std::int32_t>, std::vector<std::uint32_t>> frames_;
};

}  // namespace memprofd
