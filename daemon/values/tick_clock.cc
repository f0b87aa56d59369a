// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/tick_clock.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace memprofd {
namespace {

constexpr std::chrono::milliseconds kShortestSpan{5};

TickMoment read_both() {
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  TickMoment moment{.ticks = 0, .ns = static_cast<std::uint64_t>(now.count())};
#ifdef __x86_64__
  moment.ticks = __builtin_ia32_rdtsc();
#else
  moment.ticks = moment.ns;
#endif
  return moment;
}

TickMoment begin() {
  const TickMoment first = read_both();
  std::this_thread::sleep_for(kShortestSpan);
  return first;
}

}  // namespace

TickMoment tick_now() {
  static const TickMoment first = begin();
  TickMoment now = read_both();
  const std::uint64_t ticks = std::max<std::uint64_t>(now.ticks - first.ticks, 1);
  now.ns_per_tick = static_cast<double>(now.ns - first.ns) / static_cast<double>(ticks);
  return now;
}

}  // namespace memprofd
