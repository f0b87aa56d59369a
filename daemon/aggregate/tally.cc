// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/tally.h"

#include <array>

namespace memprofd {

void Tally::add_to(Counters& counters, const SampleWeight& each, double block_words) const {
  std::array<std::uint64_t, kHeaps> died{};
  for (const DeathCounts::Entry& entry : deaths.entries) {
    died[static_cast<int>(entry.heap())] += entry.n;
  }
  counters.add_allocated(allocated, each, block_words);
  counters.promoted.add(promoted, each);
  counters.add_live(allocated - never_followed, each, block_words);
  for (int heap = 0; heap < kHeaps; ++heap) counters.deallocated[heap].add(died[heap], each);
  counters.remove_live(died[0] + died[1], each, block_words);
  counters.deaths.add_plain(deaths, each.words);
}

void Tally::add_to(IntervalCell& cell, const SampleWeight& each) const {
  cell.allocated += allocated;
  cell.promoted += promoted;
  cell.never_followed += never_followed;
  cell.deaths.add_plain(deaths, each.words);
}

}  // namespace memprofd
