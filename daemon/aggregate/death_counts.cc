// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/death_counts.h"

#include <algorithm>

namespace memprofd {
namespace {

using Entry = DeathCounts::Entry;

// Both are sorted.
void merge(std::vector<Entry>& entries, std::span<const Entry> added) {
  if (entries.empty()) {
    entries.assign(added.begin(), added.end());
    return;
  }
  auto at = entries.begin();
  for (const Entry& death : added) {
    while (at != entries.end() && at->code < death.code) ++at;
    if (at == entries.end() || at->code != death.code) {
      at = entries.insert(at, death);
    } else {
      at->n += death.n;
    }
  }
}

}  // namespace

DeathCounts::Counts& DeathCounts::copy() {
  counts_ = counts_ == nullptr ? std::make_shared<Counts>() : std::make_shared<Counts>(*counts_);
  return *counts_;
}

void DeathCounts::add_code(std::uint8_t code, std::uint64_t n_samples, double sum_ns) {
  Counts& counts = own();
  counts.sum_ns += sum_ns;
  if (n_samples == 0) return;
  auto entry = counts.entries.begin();
  while (entry != counts.entries.end() && entry->code < code) ++entry;
  if (entry == counts.entries.end() || entry->code != code) {
    counts.entries.insert(entry, {code, n_samples});
  } else {
    entry->n += n_samples;
  }
}

void DeathCounts::add_code(std::uint8_t code, std::uint64_t n_samples) {
  const int bucket = Entry{code, 0}.bucket();
  add_code(code, n_samples, LifetimeHistogram::middle_ns(bucket) * static_cast<double>(n_samples));
}

void DeathCounts::remove_code(std::uint8_t code, std::uint64_t n_samples) {
  if (empty()) return;
  Counts& counts = own();
  const auto found = std::find_if(counts.entries.begin(), counts.entries.end(),
                                  [&](const Entry& entry) { return entry.code == code; });
  if (found == counts.entries.end()) return;
  const std::uint64_t removed = std::min<std::uint64_t>(found->n, n_samples);
  found->n -= removed;
  counts.sum_ns -= std::min(
      counts.sum_ns, LifetimeHistogram::middle_ns(found->bucket()) * static_cast<double>(removed));
  if (found->n > 0) return;
  counts.entries.erase(found);
  if (counts.entries.empty()) counts.sum_ns = 0;
}

void DeathCounts::add_codes(std::span<const Entry> deaths) {
  if (deaths.empty()) return;
  Counts& counts = own();
  merge(counts.entries, deaths);
  for (const Entry& death : deaths) {
    counts.sum_ns += LifetimeHistogram::middle_ns(death.bucket()) * static_cast<double>(death.n);
  }
}

DeathCounts& DeathCounts::operator+=(const DeathCounts& other) {
  if (other.counts_ == nullptr) return *this;
  if (counts_ == nullptr) {
    counts_ = other.counts_;
    return *this;
  }
  const std::shared_ptr<Counts> added = other.counts_;  // may be ours
  Counts& counts = own();
  merge(counts.entries, added->entries);
  counts.sum_ns += added->sum_ns;
  return *this;
}

void DeathCounts::clear() {
  if (counts_ == nullptr) return;
  if (counts_.use_count() > 1) {
    counts_.reset();
    return;
  }
  Counts& counts = own();
  counts.entries.clear();
  counts.sum_ns = 0;
}

LifetimeHistogram DeathCounts::histogram() const {
  LifetimeHistogram result;
  for (const Entry& entry : entries()) result.add_bucket(entry.bucket(), entry.n);
  result.set_sum_ns(sum_ns());
  return result;
}

}  // namespace memprofd
