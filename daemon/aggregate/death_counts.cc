#include "daemon/aggregate/death_counts.h"

#include <algorithm>
#include <limits>

namespace memprofd {

void DeathCounts::add_code(std::uint8_t code, std::uint32_t n_samples, double sum_ns) {
  sum_ns_ += sum_ns;
  for (Entry& entry : entries_) {
    if (entry.code != code) continue;
    if (__builtin_add_overflow(entry.n, n_samples, &entry.n)) {
      entry.n = std::numeric_limits<std::uint32_t>::max();
    }
    return;
  }
  if (n_samples > 0) entries_.push_back({code, n_samples});
}

void DeathCounts::add_code(std::uint8_t code, std::uint32_t n_samples) {
  const int bucket = Entry{code, 0}.bucket();
  add_code(code, n_samples, LifetimeHistogram::middle_ns(bucket) * n_samples);
}

void DeathCounts::remove_code(std::uint8_t code, std::uint32_t n_samples) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.code == code; });
  if (found == entries_.end()) return;
  found->n -= std::min(found->n, n_samples);
  sum_ns_ -= std::min(sum_ns_, LifetimeHistogram::middle_ns(found->bucket()) * n_samples);
  if (found->n > 0) return;
  *found = entries_.back();
  entries_.pop_back();
  if (entries_.empty()) sum_ns_ = 0;
}

DeathCounts& DeathCounts::operator+=(const DeathCounts& other) {
  for (const Entry& entry : other.entries_) add_code(entry.code, entry.n, 0);
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
