// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/snapshot_counts.h"

#include <utility>
#include <vector>

namespace memprofd {

void fill_counts(const Aggregator& aggregator, const CallstackTable& callstacks,
                 TargetSnapshot& snapshot) {
  const auto& by_class = aggregator.by_class();
  std::vector<AgeCounts> ages = aggregator.live_ages();
  snapshot.counters = aggregator.totals();
  snapshot.live_samples_tracked = aggregator.live().size();
  snapshot.stacks_interned = callstacks.size();
  snapshot.callstacks = callstacks.kept();
  snapshot.rows.clear();
  snapshot.rows.reserve(by_class.size());
  for (std::uint32_t id = 0; id < by_class.size(); ++id) {
    if (by_class[id].allocated.samples == 0) continue;
    const AllocClass& alloc_class = aggregator.classes().get(ClassId(id));
    snapshot.rows.push_back(
        {ClassId(id), alloc_class, &callstacks.get(alloc_class.callstack), by_class[id]});
    snapshot.rows.back().counters.ages = std::move(ages[id]);
  }
}

}  // namespace memprofd
