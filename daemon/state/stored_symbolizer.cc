// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/stored_symbolizer.h"

#include <fmt/core.h>

namespace memprofd {

void StoredSymbolizer::add_frame(std::uint64_t return_address, std::int32_t alloc_idx,
                                 std::vector<std::uint32_t> locations) {
  std::erase_if(locations, [this](std::uint32_t number) { return number >= locations_.size(); });
  if (locations.empty()) return;
  frames_.insert_or_assign({return_address, alloc_idx}, std::move(locations));
}

std::vector<Location> StoredSymbolizer::look_up(std::uint64_t return_address,
                                                std::int32_t alloc_idx) {
  const auto found = frames_.find({return_address, alloc_idx});
  if (found == frames_.end()) return {{.function = fmt::format("{:#x}", return_address)}};
  std::vector<Location> result;
  for (const std::uint32_t number : found->second) result.push_back(locations_[number]);
  return result;
}

}  // namespace memprofd
