// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/heap_meter.h"

#include <bit>

#include "daemon/discover/minor_heap.h"

namespace memprofd {
namespace {

constexpr double kMaxWords = 1e18;

}  // namespace

std::optional<HeapMeter::Words> HeapMeter::read(const ObservedView& hit) const {
  Words words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = format_ == Format::kDoubles ? std::bit_cast<double>(hit.words[i])
                                           : static_cast<double>(hit.words[i]);
    if (!(words[i] >= 0 && words[i] < kMaxWords)) return std::nullopt;
  }
  // A request that did not fit may have moved young_ptr below the heap's start.
  const std::uint64_t used = hit.young_end - hit.young_ptr;
  if (hit.young_end < hit.young_ptr || used > kMaxMinorHeapBytes) return std::nullopt;
  const std::uint64_t used_words = used / 8;
  words[0] += static_cast<double>(used_words);
  return words;
}

double HeapMeter::advance(const ObservedView& hit) {
  const auto now = read(hit);
  if (!now) {
    drops_.add(Drop::kDecodeBadCounters);
    domains_.erase(hit.domain_state);
    return 0;
  }
  const bool collected_never = hit.words[0] == 0 && hit.words[1] == 0;
  const auto known = domains_.find(hit.domain_state);
  if (known == domains_.end()) {
    if (domains_.size() >= kMaxDomains) {
      drops_.add(Drop::kDecodeBadCounters);
      return 0;
    }
    domains_.emplace(hit.domain_state, *now);
    return collected_never ? (*now)[0] : 0;
  }
  Words& last = known->second;
  const double before = last[0];
  // A new domain that takes the place of an ended one counts from 0.
  const bool another = (*now)[0] < before;
  for (std::size_t i = 0; another && i < ended_.size(); ++i) ended_[i] += last[i];
  last = *now;
  return another ? (*now)[0] : (*now)[0] - before;
}

std::array<double, 3> HeapMeter::totals() const {
  Words totals = ended_;
  for (const auto& [state, words] : domains_) {
    for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += words[i];
  }
  return totals;
}

}  // namespace memprofd
