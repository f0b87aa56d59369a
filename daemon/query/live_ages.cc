// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/live_ages.h"

#include <algorithm>

namespace memprofd {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

// Times before the recording are known too: no block is that old.
bool is_known(const HistoryView& history, std::uint64_t time_ns) {
  return time_ns <= history.begin_ns || time_ns >= history.oldest_ns();
}

}  // namespace

LiveAges live_ages(const ProfileSnapshot& snapshot) {
  LiveAges result;
  if (snapshot.history.empty()) return result;
  const RangeCounter counter(snapshot);
  const std::uint64_t now_ns = counter.now_ns();
  std::vector<std::uint64_t> times_ns;
  for (const std::uint64_t age : kLiveAgesSeconds) {
    const std::uint64_t time_ns = now_ns - std::min(now_ns, age * kSecondNs);
    if (!is_known(snapshot.history, time_ns)) break;
    times_ns.push_back(counter.resolve({std::max<std::uint64_t>(time_ns, 1), 0}).begin_ns);
  }
  result.known = static_cast<int>(times_ns.size());
  result.older = counter.born_before(times_ns, now_ns);
  return result;
}

}  // namespace memprofd
