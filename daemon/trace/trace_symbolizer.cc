// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/trace_symbolizer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace memprofd {

const std::string* TraceSymbolizer::name(const std::string& text) {
  return &*names_.insert(text).first;
}

void TraceSymbolizer::add(std::uint64_t code, std::span<const ctf::Location> locations) {
  if (locations.empty() || size_ + locations.size() > kMaxLocations) return;
  std::vector<StoredLocation> places;
  places.reserve(locations.size());
  for (auto at = locations.rbegin(); at != locations.rend(); ++at) {
    places.push_back({name(at->function), name(at->file), at->line,
                      static_cast<std::uint16_t>(std::min(at->start_column, 0xFFFFu)),
                      static_cast<std::uint16_t>(std::min(at->end_column, 0xFFFFu))});
  }
  std::vector<StoredLocation>& kept = locations_[code];
  size_ += places.size();
  size_ -= kept.size();
  kept = std::move(places);
}

std::vector<Location> TraceSymbolizer::look_up(std::uint64_t code, std::int32_t /*alloc_idx*/) {
  const auto found = locations_.find(code);
  if (found == locations_.end()) return {{.function = absl::StrCat("0x", absl::Hex(code))}};
  std::vector<Location> result;
  result.reserve(found->second.size());
  for (const StoredLocation& place : found->second) {
    result.push_back({.function = *place.function,
                      .file = *place.file,
                      .line = place.line,
                      .start_column = place.start_column,
                      .end_column = place.end_column});
  }
  return result;
}

}  // namespace memprofd
