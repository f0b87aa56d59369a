// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/sample_sites.h"

#include "absl/container/flat_hash_map.h"
#include "daemon/pipeline/pipeline.h"

namespace memprofd {

SampleSites find_sample_sites(const Pipeline& pipeline, std::span<const SampleId> numbers) {
  SampleSites sites;
  absl::flat_hash_map<CallstackId, std::uint32_t> places;
  for (const SampleId number : numbers) {
    sites.of.push_back(SampleSites::kUnknown);
    sites.allocated_ns.push_back(0);
    const auto sample = pipeline.aggregator().live().find(number);
    if (!sample) continue;
    sites.allocated_ns.back() = sample->alloc_time_ns();
    const CallstackId callstack = pipeline.alloc_class(sample->alloc_class()).callstack;
    if (callstack.value() == 0) continue;
    const auto next = static_cast<std::uint32_t>(sites.callstacks.size());
    const auto [place, added] = places.try_emplace(callstack, next);
    if (added) sites.callstacks.push_back(pipeline.callstack(callstack));
    sites.of.back() = place->second;
  }
  return sites;
}

}  // namespace memprofd
