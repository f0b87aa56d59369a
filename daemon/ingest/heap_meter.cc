// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/heap_meter.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "daemon/discover/minor_heap.h"

namespace memprofd {
namespace {

constexpr double kMaxWords = 1e18;
// Largest combined allocation in the minor heap, in words, headers included.
constexpr double kMaxRequestWords = 512;
// Collections of a domain without a hit at a place, whose own filling would have been one.
constexpr int kManyCollections = 2;

}  // namespace

// A domain that takes the place of an ended one counts from 0. The same domain may have some words
// less than at its last hit: the runtime takes a request back before it lets another thread run.
bool HeapMeter::is_another(const Domain& domain, const ObservedView& hit, const Words& now) {
  const double lost = domain.words[0] - now[0];
  return lost > kMaxRequestWords || (lost > 0 && hit.words[0] == 0 && domain.collected_word != 0);
}

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

std::optional<double> HeapMeter::advance(const ObservedView& hit) {
  const auto now = read(hit);
  if (!now) {
    drops_.add(Drop::kDecodeBadCounters);
    domains_.erase(hit.domain_state);
    return 0;
  }
  const auto known = domains_.find(hit.domain_state);
  if (known == domains_.end()) {
    if (domains_.size() >= kMaxDomains) {
      drops_.add(Drop::kDecodeBadCounters);
      return 0;
    }
    domains_.emplace(hit.domain_state, Domain{*now, (*now)[0], hit.words[0], 0});
    const bool collected_never = hit.words[0] == 0 && hit.words[1] == 0;
    return collected_never ? (*now)[0] : 0;
  }
  Domain& domain = known->second;
  if (is_another(domain, hit, *now)) {
    for (std::size_t i = 0; i < ended_.size(); ++i) ended_[i] += domain.words[i];
    domain = {};
  }
  for (std::size_t i = 0; i < domain.words.size(); ++i) {
    domain.words[i] = std::max(domain.words[i], (*now)[i]);
  }
  domain.collections += hit.words[0] != domain.collected_word ? 1 : 0;
  domain.collected_word = hit.words[0];
  const bool at_a_place = hit.young_limit < hit.young_end;
  if (!at_a_place && domain.collections < kManyCollections) return std::nullopt;
  domain.collections = 0;
  return domain.words[0] - std::exchange(domain.represented, domain.words[0]);
}

std::array<double, 3> HeapMeter::totals() const {
  Words totals = ended_;
  for (const auto& [state, domain] : domains_) {
    for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += domain.words[i];
  }
  return totals;
}

}  // namespace memprofd
