#include "daemon/store/profile.h"

#include <functional>
#include <utility>

namespace memprofd {
namespace {

bool is_unknown(const Callstack& callstack) {
  bool unknown = true;
  callstack.for_each_run([&](std::uint64_t, std::uint64_t) { unknown = false; });
  return unknown;
}

}  // namespace

std::vector<Location> visible_callstack(const TargetProfile& profile, const ProfileRow& row,
                                        std::size_t max_locations) {
  if (max_locations == 0) return {};
  if (is_unknown(*row.callstack)) return {{.function = "(unknown)"}};
  std::function<bool(const Location&)> keep;
  if (profile.hidden != nullptr) {
    keep = [&](const Location& location) { return !profile.hidden->matches(location); };
  }
  std::vector<Location> locations =
      symbolize(*profile.symbolizer, *row.callstack, max_locations, keep);
  if (locations.empty()) locations.push_back({.function = "(hidden)"});
  return locations;
}

Location visible_site(const TargetProfile& profile, const ProfileRow& row) {
  if (profile.hidden == nullptr) return site_of(*profile.symbolizer, *row.callstack);
  return std::move(visible_callstack(profile, row, 1).front());
}

}  // namespace memprofd
