// Roll-up of a snapshot's callstacks to sites, computed on read.
#pragma once

#include <string>
#include <vector>

#include "daemon/store/snapshot.h"

namespace memprofd {

enum class SiteOrder { kAllocated, kLive, kPromoted, kSamples, kLifetime };

struct SiteQuery {
  SiteOrder order = SiteOrder::kLive;
  std::size_t limit = 0;       // 0: all
  std::string pattern;         // substring of function or file; empty: all
  bool with_callstack = true;  // fill Site::callstack
};

// Sums over all callstacks with the same innermost function, file and line.
struct Site {
  Location location;
  CallstackCounters counters;
  // The callstack of the site that weighs most by the query's order.
  std::vector<Location> callstack;
};

// Sorted by the order, largest first; ties by function, file and line, so that
// equal inputs give equal outputs.
std::vector<Site> roll_up_sites(const TargetSnapshot& snapshot, const SiteQuery& query);

}  // namespace memprofd
