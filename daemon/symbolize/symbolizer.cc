#include "daemon/symbolize/symbolizer.h"

#include <algorithm>
#include <optional>

namespace memprofd {

Location site_of(Symbolizer& symbolizer, const Callstack& callstack) {
  std::optional<std::uint64_t> innermost;
  for (const std::uint64_t entry : callstack.entries) {
    if ((entry & MEMPROF_RUN_MARK) != 0) continue;
    innermost = entry;
    break;
  }
  if (!innermost) return Location{.function = "(unknown)"};
  return symbolizer.locations(*innermost, callstack.alloc_idx).front();
}

std::vector<Location> symbolize(Symbolizer& symbolizer, const Callstack& callstack,
                                std::size_t max_locations,
                                const std::function<bool(const Location&)>& keep) {
  std::vector<Location> result;
  const auto append = [&](std::uint64_t address, std::int32_t alloc_idx, std::uint64_t times) {
    if (result.size() >= max_locations) return;
    std::vector<Location> frame = symbolizer.locations(address, alloc_idx);
    if (keep) std::erase_if(frame, [&](const Location& location) { return !keep(location); });
    for (; times > 0 && !frame.empty() && result.size() < max_locations; --times) {
      const std::size_t room = std::min(frame.size(), max_locations - result.size());
      result.insert(result.end(), frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(room));
    }
  };
  callstack.for_each_frame(append);
  return result;
}

}  // namespace memprofd
