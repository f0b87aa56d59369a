// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/death_counts.h"

#include <algorithm>
#include <utility>

namespace memprofd {
namespace {

using Entry = DeathCounts::Entry;

void add_to(Entry& entry, const Entry& added) {
  entry.n += added.n;
  entry.words += added.words;
  entry.squares += added.squares;
}

// Both are sorted. weighed(entry) returns an added entry with its weight.
template <typename Weighed>
void merge(std::vector<Entry>& entries, std::span<const Entry> added, Weighed weighed) {
  if (entries.empty()) {
    entries.reserve(added.size());
    for (const Entry& one : added) entries.push_back(weighed(one));
    return;
  }
  auto at = entries.begin();
  for (const Entry& one : added) {
    const Entry death = weighed(one);
    while (at != entries.end() && at->code < death.code) ++at;
    if (at == entries.end() || at->code != death.code) {
      at = entries.insert(at, death);
    } else {
      add_to(*at, death);
    }
  }
}

}  // namespace

DeathCounts DeathCounts::of(std::vector<Entry> entries, double sum_ns) {
  DeathCounts result;
  if (entries.empty()) return result;
  result.counts_ = CopyOnWrite(Plain{std::move(entries), sum_ns});
  return result;
}

void DeathCounts::Plain::add(const Entry& added, double added_ns) {
  sum_ns += added_ns;
  if (added.n == 0) return;
  auto entry = entries.begin();
  while (entry != entries.end() && entry->code < added.code) ++entry;
  if (entry == entries.end() || entry->code != added.code) {
    entries.insert(entry, added);
  } else {
    add_to(*entry, added);
  }
}

void DeathCounts::add(const Entry& entry) {
  counts_.own().add(entry, LifetimeHistogram::middle_ns(entry.bucket()) * entry.words);
}

void DeathCounts::add_plain(const Plain& deaths, double words_each) {
  if (deaths.entries.empty()) return;
  Plain& counts = counts_.own();
  merge(counts.entries, deaths.entries, [=](const Entry& death) {
    return Entry{death.code, death.n, death.words * words_each,
                 death.squares * words_each * words_each};
  });
  counts.sum_ns += deaths.sum_ns * words_each;
}

void DeathCounts::remove_code(std::uint8_t code, std::uint64_t n_samples, double words_each) {
  if (empty()) return;
  Plain& counts = counts_.own();
  const auto found = std::find_if(counts.entries.begin(), counts.entries.end(),
                                  [&](const Entry& entry) { return entry.code == code; });
  if (found == counts.entries.end()) return;
  const bool all = found->n <= n_samples;
  const double removed =
      all ? found->words : std::min(found->words, static_cast<double>(n_samples) * words_each);
  counts.sum_ns -= std::min(counts.sum_ns, LifetimeHistogram::middle_ns(found->bucket()) * removed);
  if (!all) {
    found->n -= n_samples;
    found->squares *= 1 - removed / found->words;
    found->words -= removed;
    return;
  }
  counts.entries.erase(found);
  if (counts.entries.empty()) counts.sum_ns = 0;
}

void DeathCounts::add_codes(std::span<const Entry> deaths, double words_each, double squares_each) {
  if (deaths.empty()) return;
  Plain& counts = counts_.own();
  merge(counts.entries, deaths, [=](const Entry& death) {
    const auto n = static_cast<double>(death.n);
    return Entry{death.code, death.n, n * words_each, n * squares_each};
  });
  for (const Entry& death : deaths) {
    counts.sum_ns +=
        LifetimeHistogram::middle_ns(death.bucket()) * static_cast<double>(death.n) * words_each;
  }
}

DeathCounts& DeathCounts::operator+=(const DeathCounts& other) {
  if (other.counts_.get() == nullptr) return *this;
  if (counts_.get() == nullptr) {
    counts_ = other.counts_;
    return *this;
  }
  const CopyOnWrite<Plain> added = other.counts_;  // may be ours
  Plain& counts = counts_.own();
  merge(counts.entries, added.get()->entries, [](const Entry& death) { return death; });
  counts.sum_ns += added.get()->sum_ns;
  return *this;
}

void DeathCounts::clear() {
  if (!counts_.is_unique()) {
    counts_ = {};
    return;
  }
  Plain& counts = counts_.own();
  counts.entries.clear();
  counts.sum_ns = 0;
}

LifetimeHistogram DeathCounts::histogram() const {
  LifetimeHistogram result;
  for (const Entry& entry : entries()) result.add_bucket(entry.bucket(), entry.n, entry.words);
  result.set_sum_ns(sum_ns());
  return result;
}

}  // namespace memprofd
