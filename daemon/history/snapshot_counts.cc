// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/snapshot_counts.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace memprofd {

void fill_counts(const Aggregator& aggregator, const CallstackTable& callstacks,
                 ProfileSnapshot& snapshot) {
  const auto& by_class = aggregator.by_class();
  snapshot.live = aggregator.live_by_session();
  std::vector<AgeCounts> ages = ages_by_class(snapshot.live, by_class.size());
  snapshot.counters = aggregator.totals();
  snapshot.live_samples_tracked = aggregator.live().size();
  const std::uint64_t forgotten_ns = snapshot.counters.forgotten_ns;
  snapshot.forgotten_seconds =
      forgotten_ns == 0 ? 0 : static_cast<double>(aggregator.now_ns() - forgotten_ns) * 1e-9;
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

void resume_from(const ProfileSnapshot& snapshot, Aggregator& aggregator,
                 CallstackTable& callstacks) {
  std::vector<const Callstack*> kept;
  std::vector<KeptClass> classes;
  for (const ProfileRow& row : snapshot.rows) {
    kept.push_back(row.callstack);
    classes.push_back({row.id, row.alloc_class, row.counters});
  }
  std::sort(kept.begin(), kept.end(),
            [](const Callstack* a, const Callstack* b) { return a->id < b->id; });
  for (const Callstack* callstack : kept) callstacks.keep(*callstack);
  const std::uint64_t sessions = snapshot.history.sessions();
  aggregator.resume(snapshot.counters, classes, snapshot.live, sessions);
}

}  // namespace memprofd
