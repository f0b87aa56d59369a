// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/visible_frames.h"

#include <algorithm>
#include <optional>

#include "daemon/model/location.h"

namespace memprofd {

bool VisibleFrames::is_hidden(LocationId id) {
  if (id == Symbolizer::kUnknown) return false;  // not a name of the program
  if (id.value() >= verdicts_.size()) verdicts_.resize(id.value() + 1);
  Verdict& verdict = verdicts_[id.value()];
  if (verdict == Verdict::kOpen) {
    verdict = hidden_->matches(location(id)) ? Verdict::kHidden : Verdict::kVisible;
  }
  return verdict == Verdict::kHidden;
}

VisibleFrames::Locations VisibleFrames::locations(FrameId frame) {
  const Locations all = symbolizer_.locations(frame);
  if (hidden_ == nullptr) return all;
  visible_.clear();
  for (const LocationId id : all) {
    if (!is_hidden(id)) visible_.push_back(id);
  }
  return visible_;
}

bool VisibleFrames::is_passed_over(LocationId id) {
  if (id.value() >= no_sites_.size()) no_sites_.resize(id.value() + 1);
  Verdict& verdict = no_sites_[id.value()];
  if (verdict == Verdict::kOpen) {
    const Location& at = location(id);
    // Names from debug information and from symbols differ in the separator.
    const bool passed_over = site_frame_ == SiteFrame::kApplication
                                 ? is_library_code(at)
                                 : at.function.starts_with("Stdlib.Bigarray.") ||
                                       at.function.starts_with("Stdlib__Bigarray.");
    verdict = passed_over ? Verdict::kHidden : Verdict::kVisible;
  }
  return verdict == Verdict::kHidden;
}

LocationId VisibleFrames::site(const Callstack& callstack) {
  const Locations first = locations(symbolizer_.innermost(callstack));
  if (!first.empty() && !is_passed_over(first.front())) return first.front();
  std::optional<LocationId> innermost, caller;
  walk(callstack, [&](Locations locations, std::uint64_t) {
    if (!innermost) innermost = locations.front();
    const auto found =
        std::ranges::find_if(locations, [&](LocationId id) { return !is_passed_over(id); });
    if (found != locations.end()) caller = *found;
    return !caller;
  });
  return caller.value_or(*innermost);
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
