#include "daemon/store/visible_frames.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"

namespace memprofd {

VisibleFrames::VisibleFrames(Symbolizer& symbolizer, const LocationMatcher* hidden)
    : symbolizer_(symbolizer), hidden_(hidden) {}

VisibleFrames::LocationKey::LocationKey(const Location& from)
    : location(&from),
      hash(absl::HashOf(from.function, from.file, from.line, from.start_column, from.end_column,
                        from.module)) {}

LocationId VisibleFrames::intern(Location location) {
  LocationKey key(location);
  if (const auto known = ids_.find(key); known != ids_.end()) return known->second;
  const LocationId id(static_cast<std::uint32_t>(by_id_.size()));
  by_id_.push_back(std::make_shared<const Location>(std::move(location)));
  key.location = by_id_.back().get();
  ids_.emplace(key, id);
  return id;
}

VisibleFrames::Frame VisibleFrames::look_up(std::uint64_t address, std::int32_t alloc_idx) {
  Frame result{static_cast<std::uint32_t>(pool_.size()), 0};
  for (Location& location : symbolizer_.locations(address, alloc_idx)) {
    if (hidden_ != nullptr && hidden_->matches(location)) continue;
    pool_.push_back(intern(std::move(location)));
    ++result.count;
  }
  return result;
}

VisibleFrames::Locations VisibleFrames::frame(std::uint64_t address, std::int32_t alloc_idx) {
  const auto [it, is_new] = frames_.try_emplace({address, alloc_idx});
  if (is_new) it->second = look_up(address, alloc_idx);
  return span_of(it->second);
}

LocationId VisibleFrames::site(const Callstack& callstack) {
  LocationId result;
  walk(callstack, [&](Locations locations, std::uint64_t) {
    result = locations.front();
    return false;
  });
  return result;
}

std::vector<LocationId> VisibleFrames::location_ids(const Callstack& callstack) {
  std::vector<LocationId> result;
  result.reserve(std::min(callstack.entries.size(), kMaxLocations));
  walk(callstack, [&](Locations locations, std::uint64_t times) {
    for (; times > 0 && result.size() < kMaxLocations; --times) {
      const std::size_t room = std::min(locations.size(), kMaxLocations - result.size());
      result.insert(result.end(), locations.begin(),
                    locations.begin() + static_cast<std::ptrdiff_t>(room));
    }
    return result.size() < kMaxLocations;
  });
  return result;
}

std::vector<Location> VisibleFrames::locations(const Callstack& callstack) {
  std::vector<Location> result;
  for (const LocationId id : location_ids(callstack)) result.push_back(location(id));
  return result;
}

}  // namespace memprofd
