#include "daemon/aggregate/death_counts.h"

#include <algorithm>
#include <limits>

namespace memprofd {

void DeathCounts::add_code(std::uint8_t code, std::uint32_t n_samples, double sum_ns) {
  sum_ns_ += sum_ns;
  if (n_samples == 0) return;
  auto entry = entries_.begin();
  while (entry != entries_.end() && entry->code < code) ++entry;
  if (entry == entries_.end() || entry->code != code) {
    entries_.insert(entry, {code, n_samples});
  } else if (__builtin_add_overflow(entry->n, n_samples, &entry->n)) {
    entry->n = std::numeric_limits<std::uint32_t>::max();
  }
}

void DeathCounts::add_code(std::uint8_t code, std::uint32_t n_samples) {
  const int bucket = Entry{code, 0}.bucket();
  add_code(code, n_samples, LifetimeHistogram::middle_ns(bucket) * n_samples);
}

void DeathCounts::remove_code(std::uint8_t code, std::uint32_t n_samples) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.code == code; });
  if (found == entries_.end()) return;
  const std::uint32_t removed = std::min(found->n, n_samples);
  found->n -= removed;
  sum_ns_ -= std::min(sum_ns_, LifetimeHistogram::middle_ns(found->bucket()) * removed);
  if (found->n > 0) return;
  entries_.erase(found);
  if (entries_.empty()) sum_ns_ = 0;
}

// Both are sorted.
void DeathCounts::merge(std::span<const Entry> deaths) {
  if (entries_.empty()) {
    entries_.assign(deaths.begin(), deaths.end());
    return;
  }
  auto at = entries_.begin();
  for (const Entry& death : deaths) {
    while (at != entries_.end() && at->code < death.code) ++at;
    if (at == entries_.end() || at->code != death.code) {
      at = entries_.insert(at, death);
    } else if (__builtin_add_overflow(at->n, death.n, &at->n)) {
      at->n = std::numeric_limits<std::uint32_t>::max();
    }
  }
}

void DeathCounts::add_codes(std::span<const Entry> deaths) {
  merge(deaths);
  for (const Entry& death : deaths) {
    sum_ns_ += LifetimeHistogram::middle_ns(death.bucket()) * death.n;
  }
}

DeathCounts& DeathCounts::operator+=(const DeathCounts& other) {
  merge(other.entries_);
  sum_ns_ += other.sum_ns_;
  return *this;
}

void DeathCounts::clear() {
  entries_.clear();
  sum_ns_ = 0;
}

LifetimeHistogram DeathCounts::histogram() const {
  LifetimeHistogram result;
  for (const Entry& entry : entries_) result.add_bucket(entry.bucket(), entry.n);
  result.set_sum_ns(sum_ns_);
  return result;
}

}  // namespace memprofd
