#include "daemon/symbolize/symbolizer.h"

#include <algorithm>
#include <optional>
#include <utility>

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
                                std::size_t max_locations) {
  std::vector<Location> result;
  // alloc_idx belongs to the innermost frame; further frames, also of the same
  // address, are calls.
  const auto append = [&](std::uint64_t address, std::int32_t alloc_idx, std::uint64_t times) {
    const std::vector<Location> frame = symbolizer.locations(address, alloc_idx);
    for (; times > 0 && result.size() < max_locations; --times) {
      const std::size_t room = std::min(frame.size(), max_locations - result.size());
      result.insert(result.end(), frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(room));
    }
  };
  bool innermost = true;
  callstack.for_each_run([&](std::uint64_t address, std::uint64_t times) {
    if (result.size() >= max_locations) return;
    if (std::exchange(innermost, false)) {
      append(address, callstack.alloc_idx, 1);
      --times;
    }
    if (times > 0) append(address, -1, times);
  });
  return result;
}

}  // namespace memprofd
